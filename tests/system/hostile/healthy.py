"""Clients that do what clients should do, and note how long it takes."""

import asyncio
import json
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field

import uvloop

from benchmarks.load import API_KEY, ORDER, Running

CLIENTS = 16
"""Half of them keep their connection, the others come with a new one for each request."""

EACH_SECONDS = 0.08
"""From the start of one request of a client to that of its next."""

PATIENCE_SECONDS = 5.0

CREATED, READ = b"201", b"200"


@dataclass
class Seen:
    """The seconds that each request took, those for which the server worked meanwhile, and the errors."""

    took: list[float] = field(default_factory=list)
    worked: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def milliseconds(percentile: int, of: Sequence[float]) -> float:
    """A percentile of seconds."""
    return statistics.quantiles(of, n=100, method="inclusive")[percentile - 1] * 1000


def used_by_healthy_clients(server: Running, seconds: float) -> Seen:
    """What they see in so many seconds: each creates a payment, then reads it, and so on."""

    async def run() -> Seen:
        seen, ends = Seen(), time.monotonic() + seconds
        clients = [_Client(server, seen, kept=not number % 2) for number in range(CLIENTS)]
        await asyncio.gather(*(client.run(ends) for client in clients))
        return seen

    return uvloop.run(run())


class _Client:
    def __init__(self, server: Running, seen: Seen, *, kept: bool) -> None:
        self._server = server
        self._seen = seen
        self._kept = kept
        self._streams: tuple[asyncio.StreamReader, asyncio.StreamWriter] | None = None

    async def run(self, ends: float) -> None:
        payment = ""
        while time.monotonic() < ends:
            began = time.monotonic()
            if payment:
                await self._ask("GET", f"/v1/payments/{payment}", b"", READ)
                payment = ""
            else:
                body = await self._ask("POST", "/v1/payments", ORDER.encode(), CREATED)
                payment = json.loads(body)["id"] if body else ""
            await asyncio.sleep(max(0, began + EACH_SECONDS - time.monotonic()))
        await self._leave()

    async def _ask(self, method: str, path: str, body: bytes, expected: bytes) -> bytes:
        began, worked = time.monotonic(), self._server.cpu_nanoseconds
        try:
            async with asyncio.timeout(PATIENCE_SECONDS):
                status, answer = await self._exchange(method, path, body)
        except (OSError, EOFError, TimeoutError) as error:
            status, answer = b"", repr(error).encode()
        self._seen.took.append(time.monotonic() - began)
        self._seen.worked.append((self._server.cpu_nanoseconds - worked) / 1e9)
        if status != expected:
            self._seen.errors.append(f"{method} {path}: {status.decode()} {answer[:200]!r}")
            await self._leave()
            return b""
        if not self._kept:
            await self._leave()
        return answer

    async def _exchange(self, method: str, path: str, body: bytes) -> tuple[bytes, bytes]:
        if self._streams is None:
            self._streams = await asyncio.open_connection("127.0.0.1", self._server.port)
        reader, writer = self._streams
        writer.write(head(method, path, len(body)) + body)
        answered = await reader.readuntil(b"\r\n\r\n")
        length = answered.lower().partition(b"content-length: ")[2].partition(b"\r\n")[0]
        return answered[9:12], await reader.readexactly(int(length))

    async def _leave(self) -> None:
        if self._streams is not None:
            self._streams[1].close()
            self._streams = None


def head(method: str, path: str, length: int | None, more: Sequence[str] = (), key: str = API_KEY) -> bytes:
    """A request head; without a length, the body comes in chunks."""
    framing = "Transfer-Encoding: chunked" if length is None else f"Content-Length: {length}"
    lines = [f"{method} {path} HTTP/1.1", "Host: 127.0.0.1", f"Authorization: Bearer {key}", framing]
    lines += ["Content-Type: application/json", f"Idempotency-Key: {uuid.uuid4()}", *more, "", ""]
    return "\r\n".join(lines).encode()
