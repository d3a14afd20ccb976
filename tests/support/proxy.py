"""A TCP proxy in a thread of the tests: what it does to the connections can be changed while they run."""

import asyncio
import contextlib
import socket
import struct
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from enum import StrEnum, auto
from typing import Any, NamedTuple


class Mode(StrEnum):
    """What happens to the bytes that arrive."""

    PASS = auto()
    RESET = auto()
    """Every connection, old or new, is reset."""
    BLACK_HOLE = auto()
    """Nothing passes, and nobody is told. When it ends, what was sent meanwhile arrives, as with TCP."""
    SLOW = auto()
    """Each chunk arrives after `delay` seconds, in either direction."""
    LOSE_REPLY = auto()
    """What the engine answers to the next commands is swallowed, and the connection then closed."""


class Way(NamedTuple):
    """A mode with its details: the seconds of SLOW, and for SLOW and LOSE_REPLY a word without which chunks
    are spared.
    """

    mode: Mode
    delay: float = 0.0
    word: bytes = b""


PASSING = Way(Mode.PASS)


class Proxy:
    """Passes connections on from a port of its own to another one of 127.0.0.1. See `proxied`."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.way = PASSING
        self._target = target
        self._loop: asyncio.AbstractEventLoop
        self._changed: asyncio.Event
        self._stop: asyncio.Event
        self._open: set[_Connection] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="proxy")

    def set(self, way: Way) -> None:
        """When this returns, every connection is treated so; by RESET, those that there were have ended."""
        asyncio.run_coroutine_threadsafe(self._set(way), self._loop).result(10)

    def start(self) -> None:
        """Listens."""
        self._thread.start()
        self._started.wait(10)

    def stop(self) -> None:
        """Ends all connections."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(10)

    async def _set(self, way: Way) -> None:
        self.way = way
        self._changed.set()
        self._changed = asyncio.Event()
        if way.mode is Mode.RESET:
            for connection in [*self._open]:
                connection.end(reset=True)

    async def _run(self) -> None:
        self._loop, self._changed, self._stop = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._loop.set_exception_handler(lambda *_: None)  # a connection that ends badly is the purpose
        server = await asyncio.start_server(self._accept, "127.0.0.1", 0)
        self.port = server.sockets[0].getsockname()[1]
        self._started.set()
        await self._stop.wait()
        server.close()
        for connection in [*self._open]:
            connection.end(reset=True)
        others = asyncio.all_tasks() - {asyncio.current_task()}
        for task in others:
            task.cancel()
        await asyncio.gather(*others, return_exceptions=True)

    async def _accept(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        connection = _Connection(writer)
        self._open.add(connection)
        try:
            if not await self._may_pass(connection, b"", to_engine=True):
                return
            theirs, ours = await asyncio.open_connection("127.0.0.1", self._target)
            connection.writers.append(ours)
            await asyncio.gather(
                self._pump(connection, reader, ours, to_engine=True),
                self._pump(connection, theirs, writer, to_engine=False),
            )
        except OSError:
            pass  # the engine is gone, or one of the two has ended the connection
        finally:
            connection.end()
            self._open.discard(connection)

    async def _pump(
        self,
        connection: "_Connection",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        to_engine: bool,
    ) -> None:
        while data := await reader.read(65536):
            if not await self._may_pass(connection, data, to_engine=to_engine):
                break
            writer.write(data)
            await writer.drain()
        else:
            await self._may_pass(
                connection, b"", to_engine=to_engine
            )  # neither does the end, in a black hole
        connection.end()

    async def _may_pass(self, connection: "_Connection", data: bytes, *, to_engine: bool) -> bool:
        """Returns when `data` is due on the other side, and says whether it may arrive there at all."""
        while True:
            way, changed = self.way, self._changed
            if way.mode is Mode.RESET:
                connection.end(reset=True)
                return False
            if way.mode is Mode.BLACK_HOLE:
                await changed.wait()
                continue
            if way.mode is Mode.SLOW and way.word in data:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), way.delay)
                    continue
            if way.mode is Mode.LOSE_REPLY:
                if to_engine:
                    connection.doomed = connection.doomed or (bool(data) and way.word in data)
                elif connection.doomed:
                    return False
            return True


class _Connection:
    """A connection of a client, and the one behind it."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.doomed = False

    def end(self, *, reset: bool = False) -> None:
        """Closes both, without a farewell if they are reset."""
        for writer in self.writers:
            if not reset:
                writer.close()
                continue
            link: Any = writer.get_extra_info("socket")
            if link is not None:  # uvloop forgets the socket of what has been closed
                with contextlib.suppress(OSError):
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


@contextmanager
def proxied(target: int) -> Iterator[Proxy]:
    """A proxy before a port of 127.0.0.1, for the length of the block."""
    proxy = Proxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
