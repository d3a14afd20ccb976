"""A connection without a socket: its protocol gets what a test gives it, when the test gives it."""

import asyncio
import re
from collections.abc import Callable
from typing import Any

from paymock.http.protocol import Application, HttpProtocol, ServerState


class Transport(asyncio.Transport):
    """Keeps what is written, until it is closed."""

    def __init__(self) -> None:
        super().__init__()
        self.written = b""
        self.closed = False
        self.reads = True
        self.on_write: Callable[[], object] = bool

    def get_extra_info(self, name: str, default: Any = None) -> Any:
        return ("127.0.0.1", 50_000) if name == "peername" else default

    def is_closing(self) -> bool:
        return self.closed

    def write(self, data: Any) -> None:
        if self.closed:
            raise RuntimeError("the transport is closed")
        self.written += data
        self.on_write()

    def can_write_eof(self) -> bool:
        return False

    def close(self) -> None:
        self.closed = True

    def pause_reading(self) -> None:
        self.reads = False

    def resume_reading(self) -> None:
        self.reads = True

    abort = close


class Connection:
    """A connection to `app`, or one more to the server of another."""

    def __init__(self, app: Application, beside: "Connection | None" = None) -> None:
        self.transport = Transport()
        self.state: ServerState = beside.state if beside else ServerState(app)
        self.protocol = HttpProtocol(self.state)
        self.protocol.connection_made(self.transport)

    @property
    def statuses(self) -> list[int]:
        """Of all replies so far."""
        return [int(status) for status in re.findall(rb"HTTP/1\.1 ([0-9]{3}) ", self.transport.written)]

    def send(self, *parts: bytes) -> None:
        for part in parts:
            self.protocol.data_received(part)


async def turns(count: int = 3) -> None:
    """Lets the event loop run."""
    for _ in range(count):
        await asyncio.sleep(0)
