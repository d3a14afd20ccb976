"""Slow clients in a separate process: `python -m tests.system.hostile.slow_clients PORT COUNT`.

Half of them send half a request head, the others half a body, and then one byte per second. They connect
within RAMP_UP_SECONDS. A client that was refused reconnects at once, and one that was disconnected after a
while. Every second the process prints a line of JSON: the clients connected now, and how many were
disconnected without a reply so far.
"""

import asyncio
import json
import resource
import subprocess
import sys
import threading
from collections.abc import Iterable, Iterator
from contextlib import contextmanager, suppress

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


async def run(port: int, count: int) -> None:
    disconnected = 0
    connected: dict[int, asyncio.StreamWriter] = {}
    connecting = asyncio.Semaphore(CONCURRENT_CONNECTS)

    async def client(number: int) -> None:
        nonlocal disconnected
        await asyncio.sleep(RAMP_UP_SECONDS * number / count)
        while True:
            refused = False
            with suppress(OSError):
                async with connecting:
                    reader, connected[number] = await asyncio.open_connection("127.0.0.1", port)
                connected[number].write(HALF_A_BODY if number % 2 else HALF_A_HEAD)
                refused = (await reader.read(12))[9:] == b"400"
            if number in connected:
                connected.pop(number).close()
            disconnected += not refused
            await asyncio.sleep(0 if refused else RECONNECT_SECONDS)

    async def send() -> None:
        while True:
            for part in range(PARTS):
                await asyncio.sleep(1 / PARTS)
                for number in range(part, count, PARTS):
                    if number in connected:
                        connected[number].write(b"x")

    async with asyncio.TaskGroup() as clients:
        for number in range(count):
            clients.create_task(client(number))
        clients.create_task(send())
        while True:
            print(json.dumps({"connected": len(connected), "disconnected": disconnected}), flush=True)
            await asyncio.sleep(1)


class SlowClientCounts:
    def __init__(self) -> None:
        self.connected: list[int] = []
        self.disconnected = 0

    def read(self, lines: Iterable[str]) -> None:
        for counts in map(json.loads, lines):
            self.connected.append(counts["connected"])
            self.disconnected = counts["disconnected"]


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
    uvloop.run(run(port, count))
