"""Regular clients that measure the latency of their requests."""

import asyncio
import json
import statistics
import time
import uuid
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import NamedTuple

import uvloop

from harness.api_client import ORDER, request_headers
from harness.docs_figures import Name
from harness.process_info import cpu_nanoseconds
from harness.server_process import ServerProcess
from tests.support.raw import request
from tests.system.faults.concurrent_creations import Connection
from tests.system.faults.history import CREATED, DONE, NO_REPLY

CLIENTS = 16
"""Half of them keep their connection, the others open a new one for each request."""

INTERVAL_SECONDS = 0.08
"""From the start of one request of a client to that of its next."""

TIMEOUT_SECONDS = 5.0


class Figure(NamedTuple):
    """A figure of docs/reliability.md, and how it violates a guarantee."""

    name: Name
    text: str
    violations: Sequence[str]


@dataclass
class LoadResult:
    """For each request its latency and the CPU time of the server meanwhile, in seconds; and the errors."""

    seconds: list[float] = field(default_factory=list)
    cpu_seconds: list[float] = field(default_factory=list)
    errors: list[str] = field(default_factory=list)


def percentile_ms(percentile: int, seconds: Sequence[float]) -> float:
    return statistics.quantiles(seconds, n=100, method="inclusive")[percentile - 1] * 1000


def run_regular_clients(server: ServerProcess, seconds: float) -> LoadResult:
    """For so many seconds, let each client create a payment, read it, and so on."""

    async def run() -> LoadResult:
        result, ends = LoadResult(), time.monotonic() + seconds
        clients = [_Client(server, result, keeps_connection=not number % 2) for number in range(CLIENTS)]
        await asyncio.gather(*(client.run(ends) for client in clients))
        return result

    return uvloop.run(run())


class _Client:
    def __init__(self, server: ServerProcess, result: LoadResult, *, keeps_connection: bool) -> None:
        self._server = server
        self._result = result
        self._keeps_connection = keeps_connection
        self._connection: Connection | None = None

    async def run(self, ends: float) -> None:
        payment = ""
        while time.monotonic() < ends:
            started = time.monotonic()
            if payment:
                await self._request("GET", f"/v1/payments/{payment}", b"", DONE)
                payment = ""
            else:
                body = await self._request("POST", "/v1/payments", ORDER.encode(), CREATED)
                payment = json.loads(body)["id"] if body else ""
            await asyncio.sleep(max(0, started + INTERVAL_SECONDS - time.monotonic()))
        await self._disconnect()

    async def _request(self, method: str, path: str, body: bytes, expected: int) -> bytes:
        started, cpu_before = time.monotonic(), cpu_nanoseconds(self._server.process.pid)
        try:
            async with asyncio.timeout(TIMEOUT_SECONDS):
                status, content = await self._exchange(method, path, body)
        except (OSError, TimeoutError) as error:
            status, content = NO_REPLY, repr(error).encode()
        self._result.seconds.append(time.monotonic() - started)
        cpu_time = cpu_nanoseconds(self._server.process.pid) - cpu_before
        self._result.cpu_seconds.append(cpu_time / 1e9)
        if status != expected:
            self._result.errors.append(f"{method} {path}: {status} {content[:200]!r}")
            await self._disconnect()
            return b""
        if not self._keeps_connection:
            await self._disconnect()
        return content

    async def _exchange(self, method: str, path: str, body: bytes) -> tuple[int, bytes]:
        if self._connection is None:
            streams = await asyncio.open_connection("127.0.0.1", self._server.port)
            self._connection = Connection(*streams)
        headers = request_headers({"Idempotency-Key": str(uuid.uuid4())})
        self._connection.writer.write(request(method, path, headers, body))
        reply = await self._connection.reply()
        return reply.status, reply.body

    async def _disconnect(self) -> None:
        if self._connection is not None:
            self._connection.writer.close()
            self._connection = None
