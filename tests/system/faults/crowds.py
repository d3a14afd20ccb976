"""Many clients create one and the same payment at the same moment, on two servers of two workers each."""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, closing, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from harness.redis_engine import redis_cluster, redis_server
from tests.system.faults.checks import CREATED
from tests.system.faults.clients import Client, fresh_sandbox, order_of
from tests.system.faults.history import History
from tests.system.faults.servers import servers

CLIENTS = 500
STORES = ("SQLite", "Redis", "Redis Cluster")
_PATIENCE_SECONDS = 20.0
_AT_ONCE = 50


@dataclass
class Crowded:
    """What came of the rounds on one store. `spans` are the seconds from the first request of a round to the
    last, `seconds` those to the last reply.
    """

    name: str
    rounds: int = 0
    replies: int = 0
    spans: list[float] = field(default_factory=list)
    seconds: list[float] = field(default_factory=list)
    violations: list[str] = field(default_factory=list)


class Reply(NamedTuple):
    """What one client was told."""

    status: int
    replayed: bool
    body: bytes


class _Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter


def crowded(name: str, rounds: int, folder: Path, clients: int = CLIENTS) -> Crowded:
    """So many rounds on one store, each with a new key."""
    sandbox = fresh_sandbox()
    with _store(name, folder) as store, servers(folder, [store, store], 2) as both:
        urls = [server.url for server in both]
        outcome = asyncio.run(_crowded(Crowded(name), rounds, clients, urls, sandbox))
        with closing(Client(sandbox, History())) as client:
            listing = [client.listing(url) for url in urls]
    for listed in listing:
        if sorted(entry.order for entry in listed) != sorted(map(_key, range(rounds))):
            outcome.violations.append(f"{len(listed)} payments are listed after {rounds} rounds")
    return outcome


def judge(key: str, replies: Sequence[Reply]) -> Iterator[str]:
    """What is wrong with the replies to identical creations."""
    wrong = [reply for reply in replies if reply.status != CREATED]
    if wrong:
        yield f"{key}: {len(wrong)} replies of {len(replies)} were no 201, such as {wrong[0]}"
    created = [reply for reply in replies if reply.status == CREATED]
    if len({reply.body for reply in created}) > 1:
        yield f"{key}: the replies differ"
    if (made := sum(not reply.replayed for reply in created)) != 1:
        yield f"{key}: created {made} times"


async def _crowded(outcome: Crowded, rounds: int, clients: int, urls: Sequence[str], sandbox: str) -> Crowded:
    connections: list[_Connection] = []
    try:
        turns = itertools.cycle(urls)
        while len(connections) < clients:
            some = itertools.islice(turns, min(_AT_ONCE, clients - len(connections)))
            connections += await asyncio.gather(*map(_connected, some))
        for number in range(rounds):
            await _round(outcome, _key(number), connections, sandbox)
    finally:
        for connection in connections:
            connection.writer.close()
        await asyncio.gather(*(c.writer.wait_closed() for c in connections), return_exceptions=True)
    return outcome


async def _round(outcome: Crowded, key: str, connections: Sequence[_Connection], sandbox: str) -> None:
    request = _request(key, sandbox)
    began = time.monotonic()
    for connection in connections:
        connection.writer.write(request)  # at once, as far as the socket takes it
    outcome.spans.append(time.monotonic() - began)
    async with asyncio.timeout(_PATIENCE_SECONDS):
        replies = await asyncio.gather(*(_reply(connection.reader) for connection in connections))
    outcome.seconds.append(time.monotonic() - began)
    outcome.rounds += 1
    outcome.replies += len(replies)
    outcome.violations += judge(key, replies)


async def _connected(url: str) -> _Connection:
    where = urlsplit(url)
    return _Connection(*await asyncio.open_connection(where.hostname, where.port))


async def _reply(reader: asyncio.StreamReader) -> Reply:
    try:
        head = (await reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
        first, *lines = head.strip().split("\r\n")
        headers = dict(line.split(": ", 1) for line in lines)
        body = await reader.readexactly(int(headers["content-length"]))
    except (OSError, EOFError) as error:
        return Reply(0, replayed=False, body=repr(error).encode())
    return Reply(int(first.split()[1]), headers.get("idempotent-replayed") == "true", body)


def _key(number: int) -> str:
    return f"crowd-{number:04d}"


def _request(key: str, sandbox: str) -> bytes:
    body = order_of(key)
    lines = [
        "POST /v1/payments HTTP/1.1",
        "Host: 127.0.0.1",
        f"Authorization: Bearer {sandbox}",
        f"Idempotency-Key: {key}",
        "Content-Type: application/json",
        f"Content-Length: {len(body)}",
    ]
    return "\r\n".join([*lines, "", ""]).encode() + body


@contextmanager
def _store(name: str, folder: Path) -> Iterator[str]:
    with ExitStack() as stack:
        if name == "SQLite":
            yield f"sqlite://{folder}/payments.db"
        elif name == "Redis":
            yield stack.enter_context(redis_server()).url
        else:
            yield stack.enter_context(redis_cluster()).url
