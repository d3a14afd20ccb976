"""A TCP proxy in a thread, whose faults can be changed while connections are open."""

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
    """What happens to received bytes."""

    PASS = auto()
    RESET = auto()
    """Open and new connections are reset."""
    BLACK_HOLE = auto()
    """Nothing is forwarded. Data sent meanwhile arrives when the mode changes, as TCP retransmits it."""
    DELAY = auto()
    """Each chunk is forwarded after `delay` seconds, in both directions."""
    DROP_REPLY = auto()
    """Requests are forwarded; at the next reply the connection is closed instead."""


class Behavior(NamedTuple):
    """A mode, the seconds of DELAY, and for DELAY and DROP_REPLY the bytes that a chunk must contain."""

    mode: Mode
    delay: float = 0.0
    pattern: bytes = b""


PASS_THROUGH = Behavior(Mode.PASS)


class TcpProxy:
    """Forwards connections from a port of its own to another port of 127.0.0.1. See `tcp_proxy`."""

    def __init__(self, target: int) -> None:
        self.port = 0
        self.behavior = PASS_THROUGH
        self._target = target
        self._loop: asyncio.AbstractEventLoop
        self._changed: asyncio.Event
        self._stop: asyncio.Event
        self._open: set[_Connection] = set()
        self._started = threading.Event()
        self._thread = threading.Thread(target=lambda: asyncio.run(self._run()), name="proxy")

    def set(self, behavior: Behavior) -> None:
        """Change the behavior for all connections. After RESET, those that were open are closed."""
        asyncio.run_coroutine_threadsafe(self._set(behavior), self._loop).result(60)

    def start(self) -> None:
        """Start to listen."""
        self._thread.start()
        self._started.wait(60)

    def stop(self) -> None:
        """Close all connections and end the thread."""
        self._loop.call_soon_threadsafe(self._stop.set)
        self._thread.join(60)

    async def _set(self, behavior: Behavior) -> None:
        self.behavior = behavior
        self._changed.set()
        self._changed = asyncio.Event()
        if behavior.mode is Mode.RESET:
            for connection in [*self._open]:
                connection.end(reset=True)

    async def _run(self) -> None:
        self._loop, self._changed, self._stop = asyncio.get_running_loop(), asyncio.Event(), asyncio.Event()
        self._loop.set_exception_handler(lambda *_: None)  # broken connections are intended
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
            if not await self._may_pass(connection, b"", to_target=True):
                return
            target_reader, target_writer = await asyncio.open_connection("127.0.0.1", self._target)
            connection.writers.append(target_writer)
            await asyncio.gather(
                self._pump(connection, reader, target_writer, to_target=True),
                self._pump(connection, target_reader, writer, to_target=False),
            )
        except OSError:
            pass  # the target has ended, or one side has closed the connection
        finally:
            connection.end()
            self._open.discard(connection)

    async def _pump(
        self,
        connection: "_Connection",
        reader: asyncio.StreamReader,
        writer: asyncio.StreamWriter,
        *,
        to_target: bool,
    ) -> None:
        while data := await reader.read(65536):
            if not await self._may_pass(connection, data, to_target=to_target):
                break
            writer.write(data)
            await writer.drain()
        else:
            await self._may_pass(connection, b"", to_target=to_target)  # a black hole holds the end back, too
        connection.end()

    async def _may_pass(self, connection: "_Connection", data: bytes, *, to_target: bool) -> bool:
        """Return when `data` is due on the other side, and whether it may arrive there at all."""
        while True:
            behavior, changed = self.behavior, self._changed
            if behavior.mode is Mode.RESET:
                connection.end(reset=True)
                return False
            if behavior.mode is Mode.BLACK_HOLE:
                await changed.wait()
                continue
            if behavior.mode is Mode.DELAY and behavior.pattern in data:
                with contextlib.suppress(TimeoutError):
                    await asyncio.wait_for(changed.wait(), behavior.delay)
                    continue
            if behavior.mode is Mode.DROP_REPLY:
                if to_target:
                    connection.drops_reply |= bool(data) and behavior.pattern in data
                elif connection.drops_reply:
                    return False
            return True


class _Connection:
    """A client's connection and the one to the target."""

    def __init__(self, writer: asyncio.StreamWriter) -> None:
        self.writers = [writer]
        self.drops_reply = False

    def end(self, *, reset: bool = False) -> None:
        """Close both, or reset them."""
        for writer in self.writers:
            if not reset:
                writer.close()
                continue
            link: Any = writer.get_extra_info("socket")
            if link is not None:  # uvloop returns None once it is closed
                with contextlib.suppress(OSError):
                    link.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
            writer.transport.abort()


@contextmanager
def tcp_proxy(target: int) -> Iterator[TcpProxy]:
    """A proxy in front of a port of 127.0.0.1 until the block ends."""
    proxy = TcpProxy(target)
    proxy.start()
    try:
        yield proxy
    finally:
        proxy.stop()
