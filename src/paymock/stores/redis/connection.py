"""The connection to one Redis node. All steps of an event loop share it, in batches.

A command whose outcome is unknown is never sent again. An outage ends each batch within BUDGET_SECONDS, so a
step that is queued behind one that does not return fails within two seconds, too.

The clients of redis-py 8.1 do not replace this code. A prototype, about as long, sent non-transactional
pipelines without retries, since a retry sends the whole pipeline again. Relative to this code (creations,
reads; medians of 12 to 19 interleaved rounds of the load of `benchmarks.stores`), one pipeline at a time had
rates of 0.88 and 0.69 with `Redis`, 0.73 and 0.72 with `RedisCluster`; one per turn of the event loop 0.83
and 0.92, 0.78 and 0.71. The machine was shared: quartiles reach from 0.57 to 1.28. Requests per second of CPU
time (quartiles from 0.65 to 0.91): 0.89 and 0.82, 0.79 and 0.73; 0.84 and 0.80, 0.77 and 0.72. `Redis` kept
the promises of docs/stores.md, but the nodes of a cluster need this code, which serves one engine as well.
`RedisCluster` broke these:

- The first request after the return of a node succeeds: each idle connection of the pool of its node fails
  one pipeline.
- Reads go on while a slot is moved: ASKING and the command after it take different connections of the pool,
  so that with an even number of idle ones the redirection never succeeds ("TTL exhausted").
- The sandboxes of the other nodes go on when a node fails: a server does not start while the first master of
  the slot table is down, since the client asks that node alone for the list of commands.
"""

import asyncio
import os
import re
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from typing import Any

from redis.asyncio.connection import AbstractConnection
from redis.exceptions import (
    AskError,
    AuthenticationError,
    MovedError,
    NoScriptError,
    OutOfMemoryError,
    ReadOnlyError,
    RedisError,
    ResponseError,
    TryAgainError,
)

from paymock.rules.errors import PaymockError
from paymock.stores.batching import Batcher, Read, merge_reads
from paymock.stores.redis.access import Access, Address
from paymock.stores.redis.scripts import pack

BUDGET_SECONDS = 0.9
"""How long a batch may take, including the connection that it may have to open."""

IDLE_SECONDS = 1.0
"""A connection that has been idle for longer is checked before it is used."""

SILENCE_SECONDS = 2.0
"""A subscription without a message for so long is checked, and closed after twice as long."""

_CHECK_SECONDS = 0.3
_CLOSE_SECONDS = 0.5
_LOST = (RedisError, OSError, RuntimeError)  # the last is what uvloop's closed transport raises
_MOVING = "The store is moving this sandbox to another node."
_RETRY = "Retry with the same Idempotency-Key after `Retry-After` seconds."


Step = bytes | Read
"""A packed command, or a read, which is packed when it is sent."""


class _AskingCommand(bytes):
    """A command preceded by ASKING, for a node that is only importing the slot."""


class Redirected(Exception):
    """The node has not carried out the step, for this reason. The node at `address` will, or this one at
    another attempt.
    """

    def __init__(self, reason: str, address: Address | None = None, *, asking: bool = False) -> None:
        super().__init__(reason)
        self.reason = reason
        self.address = address
        self.asking = asking


class Node:
    """The node at `address`. `preamble` are the commands that each new connection sends first; `on_connect`
    is called after each new connection.
    """

    def __init__(
        self,
        access: Access,
        preamble: Sequence[bytes],
        on_connect: Callable[[], None],
        address: Address,
    ) -> None:
        self.address = address
        self._access = access
        self._preamble = preamble
        self._on_connect = on_connect
        self._connection: AbstractConnection | None = None
        self._last_used = 0.0
        self._closed = False
        batcher: Batcher[Step] = Batcher(self._carry_out)
        self.execute = batcher.submit
        """Sends a step and returns the reply. Raises Redirected, and PaymockError `store_unavailable`,
        `capacity_exceeded`.
        """

    async def execute_asking(self, step: Step) -> Any:
        return await self.execute(_AskingCommand(_ASKING + _command(step)))

    async def close(self) -> None:
        """Close the connection for good. Steps without a reply fail."""
        self._closed = True
        if self._connection is not None:
            with suppress(*_LOST):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._connection.disconnect()

    async def _carry_out(self, steps: Sequence[Step]) -> list[Any]:
        merged, outcomes_of_steps = merge_reads(steps)
        outcomes: list[Any] = []
        sent = False
        failure: Exception | None = None
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                connection = await self._open_connection()
                commands = [*map(_command, merged)]
                sent = True
                await connection.send_packed_command(b"".join(commands), check_health=False)
                for command in commands:
                    if isinstance(command, _AskingCommand):
                        await connection.read_response()
                    try:
                        outcomes.append(await connection.read_response(disable_decoding=True))
                    except ResponseError as error:
                        outcomes.append(self._error_for(error))
                        if isinstance(error, NoScriptError) or _is_read_only(error):
                            failure = error
                self._last_used = asyncio.get_running_loop().time()
        except _LOST as error:
            failure = error
            lost = unknown(error) if sent else unavailable("The store cannot be reached.", error)
            outcomes += [lost] * (len(merged) - len(outcomes))
        finally:
            if failure is not None or len(outcomes) < len(merged) or self._closed:
                await self._disconnect()
        return outcomes_of_steps(outcomes)

    async def _open_connection(self) -> AbstractConnection:
        connection = self._connection
        if connection is not None and asyncio.get_running_loop().time() - self._last_used > IDLE_SECONDS:
            try:
                async with asyncio.timeout(_CHECK_SECONDS):
                    await _exchange(connection, [_PING])
            except ResponseError:
                pass  # it answers
            except _LOST:
                await self._disconnect()
                connection = None
        if connection is None:
            if self._closed:
                raise ConnectionError
            connection = self._connection = self._access.connection(self.address)
            await connection.connect()
            await _exchange(connection, self._preamble)
            self._on_connect()
        return connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    def _error_for(self, error: ResponseError) -> Exception:
        if isinstance(error, AskError):
            address = self.address.resolve(error.host, error.port)
            return Redirected(_MOVING, address, asking=not isinstance(error, MovedError))
        if isinstance(error, TryAgainError):
            return Redirected(_MOVING)
        if isinstance(error, NoScriptError):
            return Redirected("The store loses the scripts that it is given.")
        if isinstance(error, OutOfMemoryError) or "OOM command not allowed" in str(error):
            return PaymockError("capacity_exceeded")
        reason, _, _ = str(error).partition(", with args")
        return unavailable(f"The store says: {reason}.", error)


_ASKING = pack("ASKING")
_PING = pack("PING")


async def listen(access: Access, address: Address, channel: str) -> AsyncGenerator[str | None, None]:
    """Yield the messages of a channel of the node at `address`, and first None, once it is subscribed. End
    when the connection is lost, or cannot be opened.
    """
    connection = access.connection(address)
    try:
        async with asyncio.timeout(BUDGET_SECONDS):
            await connection.connect()
            await _exchange(connection, [pack("SUBSCRIBE", channel)])
        yield None
        checked = False
        while True:
            reply = await connection.read_response(disable_decoding=True, timeout=SILENCE_SECONDS)
            if reply is None and checked:
                return
            checked = reply is None
            if checked:
                await connection.send_packed_command(_PING, check_health=False)
            elif reply[0] == b"message":
                yield reply[2].decode()
    except _LOST:
        return
    finally:
        await connection.disconnect(nowait=True)


def _command(step: Step) -> bytes:
    return pack("HMGET", step.source, *step.keys) if isinstance(step, Read) else step


def _is_read_only(error: ResponseError) -> bool:
    """Whether the node has become a replica; its name may lead to its successor by now. Inside scripts,
    Redis 6.2 reports it with another message.
    """
    return isinstance(error, ReadOnlyError) or "READONLY You can't write" in str(error)


def unavailable(reason: str, cause: BaseException | None = None) -> PaymockError:
    error = PaymockError("store_unavailable", f"{reason} Nothing was stored. {_RETRY}")
    error.__cause__ = cause
    return error


def unknown(cause: BaseException) -> PaymockError:
    """Return the error for a step that may have been carried out."""
    error = PaymockError(
        "store_unavailable",
        f"The store has not answered, so it is unknown whether anything was stored. {_RETRY}",
    )
    error.__cause__ = cause
    return error


def describe_failure(error: PaymockError) -> str:
    """Return the reason why a node could not carry out a step, in the words of an operator."""
    cause = error.__cause__
    if cause is None:
        return error.message.partition(". ")[0]
    if isinstance(cause, AuthenticationError):
        return "it does not accept the user and password of the URL, or the lack of them"
    if isinstance(cause, TimeoutError):
        return "it does not answer"
    root = cause.__cause__ or cause.__context__
    if not isinstance(root, OSError):
        return str(cause)
    number = re.search(r"\[Errno (\d+)\]", str(root))  # the text of the event loop names several addresses
    return os.strerror(int(number[1])) if number else root.strerror or str(root)


async def _exchange(connection: AbstractConnection, commands: Sequence[bytes]) -> None:
    await connection.send_packed_command(b"".join(commands), check_health=False)
    for _ in commands:
        await connection.read_response()
