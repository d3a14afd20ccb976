"""One Redis engine: all steps of an event loop share one connection to it, in batches.

A command whose outcome is unknown is never sent again. An outage ends each batch within BUDGET_SECONDS, so a
step that waits behind one that is stuck fails within two seconds, too.

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
from paymock.stores.batching import Append, Batcher, merge_appends
from paymock.stores.redis.access import Access, Address
from paymock.stores.redis.scripts import pack

BUDGET_SECONDS = 0.9
"""How long a batch may take, including the connection that it may have to open."""

IDLE_SECONDS = 1.0
"""A connection that has been idle for longer is tried before it is used."""

SILENCE_SECONDS = 2.0
"""A connection on which nothing has been told for so long is tried, and given up after twice as long."""

_TRY_SECONDS = 0.3
_CLOSE_SECONDS = 0.5
_LOST = (RedisError, OSError, RuntimeError)  # the last is what uvloop's closed transport raises
_RETRY = "Retry with the same Idempotency-Key after `Retry-After` seconds."


Step = bytes | Append
"""A packed command, or what becomes one."""


class _Asked(bytes):
    """A command preceded by ASKING, for a node that is only importing the slot."""


class NotHere(Exception):
    """The node has not carried out the step: another one will, at `address`, or this one when it is asked
    again.
    """

    def __init__(self, address: Address | None = None, *, asking: bool = False) -> None:
        super().__init__()
        self.address = address
        self.asking = asking


class Node:
    """The engine at `address`. `preamble` is what a connection says when it opens; `packed` makes a command
    of what is appended; `connected` is called whenever one has opened.
    """

    def __init__(
        self,
        access: Access,
        preamble: Sequence[bytes],
        packed: Callable[[Append], bytes],
        connected: Callable[[], None],
        address: Address,
    ) -> None:
        self.address = address
        self._access = access
        self._preamble = preamble
        self._packed = packed
        self._connected = connected
        self._connection: AbstractConnection | None = None
        self._used = 0.0
        self._closed = False
        batcher: Batcher[Step] = Batcher(self._carry_out)
        self.do = batcher.submit
        """The reply to a step. Raises NotHere, and PaymockError `store_unavailable`, `capacity_exceeded`."""

    async def do_asked(self, step: Step) -> Any:
        """The reply to a step of a slot that the node is only importing."""
        return await self.do(_Asked(_ASKING + self._command(step)))

    async def close(self) -> None:
        """Ends the connection for good; steps that wait for their outcome fail."""
        self._closed = True
        if self._connection is not None:
            with suppress(*_LOST):
                async with asyncio.timeout(_CLOSE_SECONDS):
                    await self._connection.disconnect()

    async def _carry_out(self, steps: Sequence[Step]) -> list[Any]:
        kept, places = merge_appends(steps)
        outcomes: list[Any] = []
        sent = False
        failure: Exception | None = None
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                connection = await self._opened()
                commands = [self._command(step) for step in kept]
                sent = True
                await connection.send_packed_command(b"".join(commands), check_health=False)
                for command in commands:
                    if isinstance(command, _Asked):
                        await connection.read_response()
                    try:
                        outcomes.append(await connection.read_response(disable_decoding=True))
                    except ResponseError as error:
                        outcomes.append(self._refused(error))
                        if isinstance(error, NoScriptError) or _is_read_only(error):
                            failure = error
                self._used = asyncio.get_running_loop().time()
        except _LOST as error:
            failure = error
            lost = unknown(error) if sent else unavailable("The store cannot be reached.", error)
            outcomes += [lost] * (len(kept) - len(outcomes))
        finally:
            if failure is not None or len(outcomes) < len(kept) or self._closed:
                await self._disconnect()
        return [outcomes[place] for place in places]

    def _command(self, step: Step) -> bytes:
        return self._packed(step) if isinstance(step, Append) else step

    async def _opened(self) -> AbstractConnection:
        connection = self._connection
        if connection is not None and asyncio.get_running_loop().time() - self._used > IDLE_SECONDS:
            try:
                async with asyncio.timeout(_TRY_SECONDS):
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
            self._connected()
        return connection

    async def _disconnect(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await connection.disconnect(nowait=True)

    def _refused(self, error: ResponseError) -> Exception:
        if isinstance(error, AskError):
            address = self.address.told(error.host, error.port)
            return NotHere(address, asking=not isinstance(error, MovedError))
        if isinstance(error, TryAgainError | NoScriptError):
            return NotHere()
        if isinstance(error, OutOfMemoryError) or "OOM command not allowed" in str(error):
            return PaymockError("capacity_exceeded")
        reason, _, _ = str(error).partition(", with args")
        return unavailable(f"The store says: {reason}.", error)


_ASKING = pack("ASKING")
_PING = pack("PING")


async def listen(access: Access, address: Address, channel: str) -> AsyncGenerator[str | None, None]:
    """What is told on a channel of the engine at `address`; first None, when it is heard from now on. Ends
    when the connection is lost, or none comes about.
    """
    connection = access.connection(address)
    try:
        async with asyncio.timeout(BUDGET_SECONDS):
            await connection.connect()
            await _exchange(connection, [pack("SUBSCRIBE", channel)])
        yield None
        tried = False
        while True:
            reply = await connection.read_response(disable_decoding=True, timeout=SILENCE_SECONDS)
            if reply is None and tried:
                return
            tried = reply is None
            if tried:
                await connection.send_packed_command(_PING, check_health=False)
            elif reply[0] == b"message":
                yield reply[2].decode()
    except _LOST:
        return
    finally:
        await connection.disconnect(nowait=True)


def _is_read_only(error: ResponseError) -> bool:
    """Whether the engine has been made a replica: its name may lead to its successor by now. Redis 6.2 tells
    of it differently inside scripts.
    """
    return isinstance(error, ReadOnlyError) or "READONLY You can't write" in str(error)


def unavailable(reason: str, cause: BaseException | None = None) -> PaymockError:
    """The refusal of what has not been carried out."""
    refusal = PaymockError("store_unavailable", f"{reason} Nothing was stored. {_RETRY}")
    refusal.__cause__ = cause
    return refusal


def unknown(cause: BaseException) -> PaymockError:
    """The refusal of what may have been carried out."""
    refusal = PaymockError(
        "store_unavailable",
        f"The store has not answered, so it is unknown whether anything was stored. {_RETRY}",
    )
    refusal.__cause__ = cause
    return refusal


def reason_of(refusal: PaymockError) -> str:
    """Why a node could not carry out a step, for the person at the terminal."""
    cause = refusal.__cause__
    if cause is None:
        return refusal.message.partition(". ")[0]
    if isinstance(cause, AuthenticationError):
        return "it does not accept the user and password of the URL, or the lack of them"
    if isinstance(cause, TimeoutError):
        return "it does not answer"
    behind = cause.__cause__ or cause.__context__
    if not isinstance(behind, OSError):
        return str(cause)
    number = re.search(r"\[Errno (\d+)\]", str(behind))  # the event loop's text tells of several addresses
    return os.strerror(int(number[1])) if number else behind.strerror or str(behind)


async def _exchange(connection: AbstractConnection, commands: Sequence[bytes]) -> None:
    await connection.send_packed_command(b"".join(commands), check_health=False)
    for _ in commands:
        await connection.read_response()
