"""Sends mutated requests to a server, many connections at once, and judges what comes back.

Whatever a client sends, the server answers in well-formed HTTP, refuses in the envelope of every refusal, has
no defect, and lets go of the connection when the client does.
"""

import asyncio
import json
import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple

import httpx
import uvloop

from harness.polling import wait_until
from harness.process_info import count_open_files
from harness.server_process import server_process
from paymock.rules.errors import ERRORS
from tests.support.mutations import request_of

CONNECTIONS = 48
SILENCE_SECONDS = 2
"""So long a client waits for more before it ends its side: the request may want a body that never comes."""

HANG_SECONDS = 60
"""So long the server may take to let go after that, on a machine that runs many tests at once."""

LAST = b"\r\n\r\nGET /livez HTTP/1.1\r\nHost: localhost\r\nConnection: close\r\n\r\n"
"""Ends a head that was left open, and asks for an end of the connection."""

_HEAD = re.compile(
    rb"HTTP/1\.1 ([1-5][0-9]{2}) [ -~]*\r\n((?:[!#$%&'*+.^_`|~0-9A-Za-z-]+: [ -~]*\r\n)*)\r\n", re.ASCII
)


class Reply(NamedTuple):
    """A reply: its status, its header lines by lower-case name, its body; None: the reply to HEAD."""

    status: int
    headers: dict[str, str]
    body: bytes | None


@dataclass
class Outcome:
    """What came of a run: how often each status was answered, and what was wrong."""

    requests: int = 0
    replies: Counter[str] = field(default_factory=Counter)
    silent: int = 0
    """Requests without a reply: those that want a body that never comes."""

    violations: list[str] = field(default_factory=list)


class Malformed(Exception):
    """What came is no sequence of HTTP replies."""


def proof(folder: Path, count: int, seed: int, first: int = 0) -> Outcome:
    """Sends so many requests, from the number `first` on, to a server of its own, and looks after it."""
    with server_process(folder, "--no-access-log") as served:
        httpx.get(f"{served.url}/readyz")  # the first connection opens a file that stays
        files = count_open_files(served.process.pid)
        outcome = run(served.port, count, seed, first)
        if httpx.get(f"{served.url}/readyz").status_code != 200:
            outcome.violations.append("the server does not serve on")
        wait_until(lambda: count_open_files(served.process.pid) <= files)
        status, output = served.stop(signal.SIGTERM)
    output += served.stderr or ""
    if status or "defect" in output or "Traceback" in output:
        outcome.violations.append(f"the server ended with {status} and said: {output}")
    return outcome


def run(port: int, count: int, seed: int, first: int = 0) -> Outcome:
    """Sends so many requests, from the number `first` on, to the server on this port of 127.0.0.1."""
    outcome = Outcome()
    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(_run(port, seed, iter(range(first, first + count)), outcome))
    return outcome


async def _run(port: int, seed: int, numbers: Iterator[int], outcome: Outcome) -> None:
    async def work() -> None:
        for number in numbers:
            data, good = request_of(seed, number)
            received = await _exchange(port, data + LAST)
            judge(f"seed {seed}, number {number}", data, received, outcome, good)

    async with asyncio.TaskGroup() as workers:
        for _ in range(CONNECTIONS):
            workers.create_task(work())


class _Client(asyncio.Protocol):
    def __init__(self) -> None:
        self.received = bytearray()
        self.ended = asyncio.get_running_loop().create_future()
        self.heard = 0.0

    def data_received(self, data: bytes) -> None:
        self.received += data

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.ended.done():
            self.ended.set_result(None)


async def _exchange(port: int, data: bytes) -> bytes | None:
    """All that the server sends until it ends the connection, or None when it does not."""
    transport, client = await asyncio.get_running_loop().create_connection(_Client, "127.0.0.1", port)
    try:
        half = len(data) // 2
        transport.write(data[:half])
        await asyncio.sleep(0)  # two packets, mostly
        transport.write(data[half:])
        await asyncio.wait((client.ended,), timeout=SILENCE_SECONDS)
        if not client.ended.done():
            transport.write_eof()
            await asyncio.wait((client.ended,), timeout=HANG_SECONDS)
        return bytes(client.received) if client.ended.done() else None
    finally:
        transport.abort()


def judge(which: str, data: bytes, received: bytes | None, outcome: Outcome, good: int | None = None) -> None:
    """Adds to `outcome` what the server made of a request, which was `good` requests before something else;
    None: it did not let go of the connection.
    """
    outcome.requests += 1
    if received is None:
        outcome.violations.append(f"{which}: the server does not let go of the connection")
        return
    try:
        replies = [*parsed(received)]
    except Malformed as malformed:
        outcome.violations.append(f"{which}: {malformed}: {received[:200]!r}")
        return
    outcome.silent += not replies
    outcome.violations += [f"{which}: {problem}" for problem in problems(replies, data)]
    statuses = [reply.status for reply in replies]
    if good is not None and (len(statuses) != good + 1 or max(statuses[:good]) >= 300):
        outcome.violations.append(f"{which}: {good} good requests got {statuses}")
    for reply in replies:
        outcome.replies[f"{reply.status}"] += 1


def problems(replies: list[Reply], data: bytes) -> Iterator[str]:
    """What is wrong with the replies to `data`."""
    for number, reply in enumerate(replies):
        if reply.status >= 500:
            yield f"status {reply.status}: {reply.body!r}"
        if "x-request-id" not in reply.headers:
            yield f"status {reply.status} without X-Request-Id"
        if reply.body is None and b"HEAD" not in data:
            yield f"status {reply.status} without the body that its head announces"
        if reply.status >= 400 and reply.body is not None:
            yield from _envelope_problems(reply)
        if reply.headers.get("connection") == "close" and number + 1 < len(replies):
            yield "a reply after the one that was to be the last"


def _envelope_problems(reply: Reply) -> Iterator[str]:
    if reply.headers.get("content-type") != "application/json":
        yield f"status {reply.status} as {reply.headers.get('content-type')}"
        return
    error = json.loads(reply.body or b"")["error"]
    if ERRORS[error["code"]].status != reply.status or not error["message"]:
        yield f"status {reply.status} with {error}"


def parsed(received: bytes) -> Iterator[Reply]:
    """The replies. Raises Malformed."""
    while received:
        head = _HEAD.match(received)
        if head is None:
            raise Malformed("no head of a reply")
        received = received[head.end() :]
        status, lines = int(head[1]), head[2].decode("ascii").splitlines()
        headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in lines)}
        if len(headers) != len(lines):
            raise Malformed("a header line twice")
        if status == 100:
            continue
        if status == 204:
            yield Reply(status, headers, b"")
            continue
        if not headers.get("content-length", "").isdigit():
            raise Malformed("no length")
        length = int(headers["content-length"])
        if length and (not received or received.startswith(b"HTTP/1.1 ")):
            yield Reply(status, headers, None)
            continue
        if len(received) < length:
            raise Malformed("half a body")
        yield Reply(status, headers, received[:length])
        received = received[length:]
