"""Slow clients in a separate process: `python -m tests.system.hostile.slow_clients PORT COUNT`.

Half of them send half a request head, the others half a body, and then one byte per second. They connect
within RAMP_UP_SECONDS. A client that was refused reconnects at once, and one that was disconnected after a
while. Every second the process prints a line of JSON: the clients connected now, and how many were refused
with status 400 or disconnected without a reply so far.
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

from harness.api_client import API_KEY

PARTS = 20
"""Clients are divided into so many groups, which send at different moments of a second."""

RAMP_UP_SECONDS = 10.0
RECONNECT_SECONDS = 5.0
CONCURRENT_CONNECTS = 64

SPARE_FILES = 200

HALF_A_HEAD = b"GET /v1/chains HTTP/1.1\r\nHost: 127.0.0.1\r\nX-Slow: "
HALF_A_BODY = (
    b"POST /v1/payments HTTP/1.1\r\nHost: 127.0.0.1\r\nContent-Type: application/json\r\n"
    b"Authorization: Bearer %s\r\nIdempotency-Key: half-a-body\r\nContent-Length: 1000\r\n\r\n{"
) % API_KEY.encode()


class SlowClient(asyncio.Protocol):
    """A client; `group` counts how it ends."""

    def __init__(self, group: "SlowClients", start: bytes) -> None:
        self.transport: asyncio.Transport
        self._group = group
        self._start = start
        self._status = b""

    def connection_made(self, transport: asyncio.Transport) -> None:  # type: ignore[override]
        self.transport = transport
        transport.write(self._start)
        self._group.connected.add(self)

    def data_received(self, data: bytes) -> None:
        self._status = self._status or data[9:12]

    def connection_lost(self, exc: Exception | None) -> None:
        self._group.remove(self, self._start, refused=self._status == b"400")


class SlowClients:
    def __init__(self, port: int, count: int) -> None:
        self.connected: set[SlowClient] = set()
        self._port = port
        self._count = count
        self._pending: asyncio.Queue[bytes] = asyncio.Queue()
        self._error_for = self._disconnected = 0

    def remove(self, client: SlowClient, start: bytes, *, refused: bool) -> None:
        self.connected.discard(client)
        self._error_for += refused
        self._reconnect(start, disconnected=not refused)

    def _reconnect(self, start: bytes, *, disconnected: bool) -> None:
        self._disconnected += disconnected
        seconds = RECONNECT_SECONDS if disconnected else 0
        asyncio.get_running_loop().call_later(seconds, self._pending.put_nowait, start)

    async def run(self) -> None:
        await asyncio.gather(
            self._ramp_up(),
            self._send(),
            self._report(),
            *(self._connect() for _ in range(CONCURRENT_CONNECTS)),
        )

    async def _ramp_up(self) -> None:
        for number in range(self._count):
            self._pending.put_nowait(HALF_A_BODY if number % 2 else HALF_A_HEAD)
            if not number % (self._count // 500):
                await asyncio.sleep(RAMP_UP_SECONDS / 500)

    async def _connect(self) -> None:
        loop = asyncio.get_running_loop()
        while True:
            start = await self._pending.get()
            try:
                await loop.create_connection(partial(SlowClient, self, start), "127.0.0.1", self._port)
            except OSError:
                self._reconnect(start, disconnected=True)

    async def _send(self) -> None:
        while True:
            for part in range(PARTS):
                await asyncio.sleep(1 / PARTS)
                for client in [client for client in self.connected if id(client) // 64 % PARTS == part]:
                    client.transport.write(b"x")

    async def _report(self) -> None:
        while True:
            counts = {"connected": len(self.connected), "refused": self._error_for}
            print(json.dumps({**counts, "disconnected": self._disconnected}), flush=True)
            await asyncio.sleep(1)


class SlowClientCounts:
    def __init__(self) -> None:
        self.connected: list[int] = []
        self.refused = self.disconnected = 0

    def read(self, lines: Iterable[str]) -> None:
        for counts in map(json.loads, lines):
            self.connected.append(counts["connected"])
            self.refused, self.disconnected = counts["refused"], counts["disconnected"]


@contextmanager
def slow_clients(port: int, count: int) -> Iterator[SlowClientCounts]:
    command = [sys.executable, "-m", "tests.system.hostile.slow_clients", str(port), str(count)]
    counts = SlowClientCounts()
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        reading = threading.Thread(target=counts.read, args=(process.stdout,))
        reading.start()
        try:
            yield counts
        finally:
            process.kill()
            reading.join()


if __name__ == "__main__":
    port, count = map(int, sys.argv[1:])
    _, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard < count + SPARE_FILES:
        sys.exit(f"{count} connections need as many files, and this process may open {hard}")
    resource.setrlimit(resource.RLIMIT_NOFILE, (hard, hard))
    uvloop.run(SlowClients(port, count).run())
