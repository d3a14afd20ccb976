"""Slow clients in a process of their own: `python -m tests.system.hostile.crowd PORT COUNT`.

Half of them send half a head, the others half a body; then each sends one byte a second. They come within
COMING_SECONDS. Whoever is refused comes again at once, and whoever is cut off a while later. Once a second it
prints a line of JSON: how many are connected now, and how many were refused with a status of 400, or cut off
without a word, so far.
"""

import asyncio
import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from functools import partial

import uvloop

from benchmarks.load import API_KEY

PARTS = 20
"""How many parts of them send their bytes at different moments of a second."""

COMING_SECONDS = 10.0
CUT_OFF_SECONDS = 5.0
CONNECTING = 64
"""How many connect at the same time."""

SPARE_FILES = 200

HALF_A_HEAD = b"GET /v1/chains HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_A_BODY = (
    b"POST /v1/payments HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer %s\r\nIdempotency-Key: half-a-body\r\nContent-Length: 1000\r\n\r\n{"
) % API_KEY.encode()


class SlowClient(asyncio.Protocol):
    """One of them; `crowd` counts what becomes of it."""

    def __init__(self, crowd: "Crowd", start: bytes) -> None:
        self.transport: asyncio.Transport
        self._crowd = crowd
        self._start = start
        self._status = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        """It begins."""
        self.transport = transport
        transport.write(self._start)
        self._crowd.connected.add(self)

    def data_received(self, data: bytes) -> None:
        """It is refused."""
        self._status = self._status or data[9:12]

    def connection_lost(self, exc: Exception | None) -> None:
        """It is over, and comes again."""
        self._crowd.left(self, self._start, refused=self._status == b"400")


class Crowd:
    """All of them."""

    def __init__(self, port: int, count: int) -> None:
        self.connected: set[SlowClient] = set()
        self._port = port
        self._count = count
        self._coming: asyncio.Queue[bytes] = asyncio.Queue()
        self._refused = self._cut = 0

    def left(self, client: SlowClient, start: bytes, *, refused: bool) -> None:
        """One was let go."""
        self.connected.discard(client)
        self._refused += refused
        self._again(start, cut=not refused)

    def _again(self, start: bytes, *, cut: bool) -> None:
        self._cut += cut
        seconds = CUT_OFF_SECONDS if cut else 0
        asyncio.get_running_loop().call_later(seconds, self._coming.put_nowait, start)

    async def run(self) -> None:
        """Goes on until nobody listens."""
        await asyncio.gather(
            self._come(), self._send(), self._tell(), *(self._connect() for _ in range(CONNECTING))
        )

    async def _come(self) -> None:
        for number in range(self._count):
            self._coming.put_nowait(HALF_A_BODY if number % 2 else HALF_A_HEAD)
            if not number % (self._count // 500):
                await asyncio.sleep(COMING_SECONDS / 500)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            start = await self._coming.get()
            try:
                await loop.create_connection(partial(SlowClient, self, start), "127.0.0.1", self._port)
            except OSError:
                self._again(start, cut=True)

    async def _send(self) -> None:
        while True:
            for part in range(PARTS):
                await asyncio.sleep(1 / PARTS)
                for client in [one for one in self.connected if id(one) // 64 % PARTS == part]:
                    client.transport.write(b"x")

    async def _tell(self) -> None:
        while True:
            seen = {"connected": len(self.connected), "refused": self._refused, "cut": self._cut}
            print(json.dumps(seen), flush=True)
            await asyncio.sleep(1)


class Seen:
    """What the crowd says of itself, second by second."""

    def __init__(self) -> None:
        self.connected: list[int] = []
        self.refused = self.cut = 0

    def read(self, lines: Iterable[str]) -> None:
        """All that it says."""
        for seen in map(json.loads, lines):
            self.connected.append(seen["connected"])
            self.refused, self.cut = seen["refused"], seen["cut"]


@contextmanager
def crowd(port: int, count: int) -> Iterator[Seen]:
    """So many slow clients, until the block ends."""
    command = [sys.executable, "-m", "tests.system.hostile.crowd", str(port), str(count)]
    seen = Seen()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reading = threading.Thread(target=seen.read, args=(process.stdout,))
        reading.start()
        try:
            yield seen
        finally:
            process.kill()
            reading.join()


if __name__ == "__main__":
    port, count = map(int, sys.argv[1:])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + SPARE_FILES:
        sys.exit(f"{count} connections need as many files, and this process may open {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(Crowd(port, count).run())
