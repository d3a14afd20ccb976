"""The client of a Redis store: that of redis-py, for one engine or for the master that Sentinels name.

What may have been carried out is never sent again. Concurrent steps share a pipeline, whose reads are merged:
without that the rate of creations is a third lower, and that of reads a half.
"""

import asyncio
import os
import re
import time
from collections.abc import AsyncGenerator, Callable, Sequence
from contextlib import suppress
from contextvars import ContextVar
from typing import Any
from urllib.parse import unquote, urlsplit

from hiredis import pack_command
from redis.asyncio import ConnectionPool, Redis
from redis.asyncio.connection import AbstractConnection, parse_url
from redis.asyncio.retry import Retry
from redis.asyncio.sentinel import MasterNotFoundError, Sentinel
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, NoScriptError, OutOfMemoryError, RedisError, ResponseError

from paymock.rules.errors import ERRORS, PaymockError
from paymock.stores.base import StoreError
from paymock.stores.batching import Batcher, Read, merge_reads
from paymock.stores.redis.scripts import Script

BUDGET_SECONDS = 0.9
"""How long a batch may take, with a new connection: a step behind it fails within two seconds, too."""

_CONNECT_SECONDS = 0.6
"""How long the connection may take, and again the first exchange on it."""

SILENCE_SECONDS = 2.0
"""A subscription without a message for so long is checked, and closed after twice as long."""

LOST = (RedisError, OSError, RuntimeError, AttributeError)
"""What redis-py raises when a connection is lost: the last two are for a transport that uvloop has closed,
and for a connection that `close` has closed.
"""

_SENTINEL_PORT = 26379
_RETRY = ERRORS["store_unavailable"].remedy

_FULL = "Redis has no memory left. Nothing was stored. Raise its `maxmemory`, or reset an unneeded sandbox."

_OPTIONS: dict[str, Any] = {
    "protocol": 2,
    "decode_responses": False,
    "health_check_interval": 0,
    "retry": Retry(NoBackoff(), 0),
    "socket_connect_timeout": _CONNECT_SECONDS,
    "socket_timeout": None,
}

_NOT_MASTER = re.compile("read only replica|NOREPLICAS|MASTERDOWN|LOADING|MISCONF")
"""What an engine says that may have a successor by now."""

_LOOK_SECONDS = 0.5
"""How often, under load, Sentinel is asked for the master, and a master is left that may have a successor."""

_LOOK_WAIT_SECONDS = 0.2
"""How long the first step after a pause waits for the answer."""

_TRUSTED_SECONDS = 0.1
"""How long after its last use a connection is taken for whole."""

_follows = ContextVar("_follows", default=False)
"""Whether the task follows a channel. Its connections tell nothing of the data, so they are not counted."""

Step = tuple[str | bytes | int, ...] | Read
"""A command, or a read of a hash."""


class Client:
    """The client of one event loop, which connects on first use. `on_connect` is called after each new
    connection. Raises StoreError, which does not repeat the URL: it may hold a password.
    """

    def __init__(self, url: str, on_connect: Callable[[], None]) -> None:
        self._on_connect = on_connect
        self._batcher: Batcher[Step] = Batcher(self._carry_out)
        self._closed = self._is_doubted = False
        self._connection: Any = None
        self._used = 0.0
        self._sentinel: Sentinel | None = None
        self._service, self._looked, self._left = "", 0.0, 0.0
        self._look: asyncio.Future[tuple[str, int]] | None = None
        scheme, _, rest = url.partition("://")
        try:
            if scheme.endswith("+sentinel"):
                self.redis = self._open_by_sentinels(scheme.removesuffix("+sentinel"), rest)
            else:
                pool = ConnectionPool(**{**parse_url(url), **_OPTIONS})
                self.redis = Redis.from_pool(pool)  # which takes the protocol that the pool has by now
            self.redis.connection_pool.connection_kwargs["redis_connect_func"] = self._greet
            self.redis.connection_pool.make_connection()  # raises for an unknown option
        except (ValueError, TypeError, RedisError):
            raise StoreError(
                "cannot use the store: its URL is not valid: redis://USER:PASSWORD@HOST:PORT/DATABASE or "
                "redis+sentinel://USER:PASSWORD@HOST:PORT,HOST:PORT/SERVICE/DATABASE, with the options of "
                "redis-py, and with sentinel_username and sentinel_password"
            ) from None

    async def execute(self, step: Step) -> Any:
        """Send a step and return the reply. Raises PaymockError `store_unavailable`, `capacity_exceeded`."""
        try:
            return await self._batcher.submit(step)
        except LOST as error:
            if isinstance(error, ResponseError) and _NOT_MASTER.search(str(error)):
                self._is_doubted = True
            if isinstance(error, OutOfMemoryError) or "OOM command not allowed" in str(error):
                raise PaymockError("capacity_exceeded", _FULL) from error
            outcome = "The store has not answered, so it is unknown whether anything was stored."
            if isinstance(error, ResponseError):
                reason, _, _ = str(error).partition(", with args")
                outcome = f"The store says: {reason}. Nothing was stored."
            raise PaymockError("store_unavailable", f"{outcome} {_RETRY}") from error

    async def run(self, script: Script, keys: Sequence[str], *arguments: str | bytes | int) -> Any:
        """Run a script, whose text is sent only to an engine that does not know its digest."""
        try:
            return await self.execute(("EVALSHA", script.digest, len(keys), *keys, *arguments))
        except PaymockError as error:
            if not isinstance(error.__cause__, NoScriptError):
                raise
        return await self.execute(("EVAL", script.text, len(keys), *keys, *arguments))

    async def messages(self, channel: str) -> AsyncGenerator[str | None, None]:
        """Yield None once a channel is subscribed, then its messages, until there is no connection."""
        _follows.set(True)
        pubsub = self.redis.pubsub()
        checked = False
        try:
            async with asyncio.timeout(BUDGET_SECONDS):
                await pubsub.subscribe(channel)
            while True:
                message = await pubsub.get_message(timeout=SILENCE_SECONDS)
                if message is None and checked:
                    return
                checked = message is None
                if message is None:
                    await pubsub.ping()
                elif message["type"] == "subscribe":
                    yield None
                elif message["type"] == "message":
                    yield message["data"].decode()
        except LOST:
            return
        finally:
            with suppress(*LOST):
                await pubsub.aclose()

    async def close(self) -> None:
        """Close all connections for good. Steps without a reply fail."""
        self._closed = True
        for client in [self.redis, *(self._sentinel.sentinels if self._sentinel else ())]:
            with suppress(*LOST):
                await client.aclose()

    def _open_by_sentinels(self, scheme: str, rest: str) -> Redis:
        authority, _, place = rest.partition("/")
        user, at, hosts = authority.rpartition("@")
        path, mark, query = place.partition("?")
        service, _, database = path.partition("/")
        if not service:
            raise ValueError
        options: dict[str, Any] = dict(parse_url(f"{scheme}://{user}{at}master/{database}{mark}{query}"))
        options.pop("connection_class", None)
        options.pop("host")
        seeds = [urlsplit(f"//{host}") for host in hosts.split(",")]
        patience = BUDGET_SECONDS / 2 / len(seeds)  # all may be asked before one answers
        secure = {"ssl": True} if scheme == "rediss" else {}
        self._sentinel = Sentinel(
            [(seed.hostname or "localhost", seed.port or _SENTINEL_PORT) for seed in seeds],
            sentinel_kwargs={
                **{name: value for name, value in options.items() if name.startswith("ssl_")},
                **_OPTIONS,
                **secure,
                "username": options.pop("sentinel_username", None),
                "password": options.pop("sentinel_password", None),
                "socket_connect_timeout": patience,
                "socket_timeout": patience,
            },
        )
        self._service = unquote(service)
        redis: Redis = self._sentinel.master_for(self._service, **{**options, **_OPTIONS, **secure})
        return redis

    async def _carry_out(self, steps: Sequence[Step]) -> Sequence[Any]:
        if self._closed:
            raise ConnectionError
        merged, split = merge_reads(steps)
        commands = [("HMGET", one.source, *one.keys) if isinstance(one, Read) else one for one in merged]
        outcomes: list[Any] = []
        async with asyncio.timeout(BUDGET_SECONDS):
            await self._look_for_successor()
            if time.monotonic() - self._used > _TRUSTED_SECONDS:
                await self._release()  # it may be broken by now: the pool looks, for a tenth of a read
            pool = self.redis.connection_pool
            connection = self._connection = self._connection or await pool.get_connection()
            try:
                # by hiredis, since the packer of the connection takes more time than all else
                packed = [pack_command(command) for command in commands]  # type: ignore[arg-type] # of any length
                await connection.send_packed_command(packed, check_health=False)
                for _ in commands:
                    try:
                        outcomes.append(await connection.read_response())
                    except ResponseError as error:
                        outcomes.append(error)
            except BaseException:  # an interrupted one has closed itself
                await self._release()
                raise
        self._used = time.monotonic()
        return split(outcomes)

    async def _look_for_successor(self) -> None:
        """Let the connection go if Sentinel names another master. Under load, no step waits for its answer;
        after a pause, one waits a little: otherwise the isolated master would acknowledge one more write.
        """
        now = time.monotonic()
        if self._is_doubted and now - self._left > _LOOK_SECONDS:
            self._is_doubted, self._left = False, now
            await self._disconnect()
        connection = self._connection
        if self._sentinel is None or connection is None:
            return
        if self._look is None and now - self._looked > _LOOK_SECONDS:
            self._looked = now
            self._look = asyncio.ensure_future(self._sentinel.discover_master(self._service))
        if self._look is not None and now - self._used > _LOOK_SECONDS:
            await asyncio.wait([self._look], timeout=_LOOK_WAIT_SECONDS)
        if self._look is not None and self._look.done():
            look, self._look = self._look, None
            with suppress(*LOST):
                if look.result() != (connection.host, connection.port):
                    await self._disconnect()

    async def _disconnect(self) -> None:
        await self._release()
        await self.redis.connection_pool.disconnect(inuse_connections=False)

    async def _release(self) -> None:
        connection, self._connection = self._connection, None
        if connection is not None:
            await self.redis.connection_pool.release(connection)

    async def _greet(self, connection: AbstractConnection) -> None:
        async with asyncio.timeout(_CONNECT_SECONDS):
            await connection.on_connect()
        if not _follows.get():
            self._on_connect()


def describe(error: Exception) -> str:
    """Return why the engine cannot be used, in the words of an operator."""
    if isinstance(error, AuthenticationError):
        return "it rejects the user and password of the URL, or requires them"
    if isinstance(error, MasterNotFoundError):  # whose text has the options of the connections
        reason, _, _ = str(error).partition(" : ")
        return (
            f"{reason}: no reachable Sentinel accepts the credentials (sentinel_username, sentinel_password) "
            "and knows this master"
        )
    if refused := re.match(r"Error (\d+) connecting to (\S+)\. Connect call failed", str(error)):
        return f"{refused[2]} cannot be reached: {os.strerror(int(refused[1]))}"
    return str(error) or "it does not answer"
