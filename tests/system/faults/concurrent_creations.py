"""Many identical creations at the same moment, on two servers."""

import asyncio
import itertools
import time
from collections.abc import Iterator, Sequence
from contextlib import closing
from dataclasses import dataclass
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.support.raw import request
from tests.system.faults.clients import TIMEOUT_SECONDS, Client, new_api_key, order_body
from tests.system.faults.history import CREATED, UNAVAILABLE, History
from tests.system.faults.restartable_server import new_store, restartable_servers
from tests.system.faults.verification import Result

CLIENTS = 500
STORES = ("SQLite", "Redis")
_CONCURRENT_CONNECTS = 50


@dataclass
class ConcurrencyResult(Result):
    """The outcome on one store. `slowest`: the most seconds from the first request of a round to the last
    reply.
    """

    replies: int = 0
    slowest: float = 0.0


class Reply(NamedTuple):
    status: int
    replayed: bool
    body: bytes


class Connection(NamedTuple):
    reader: asyncio.StreamReader
    writer: asyncio.StreamWriter

    async def reply(self) -> Reply:
        try:
            head = (await self.reader.readuntil(b"\r\n\r\n")).decode("latin-1").lower()
            first, *lines = head.strip().split("\r\n")
            headers = dict(line.split(": ", 1) for line in lines)
            body = await self.reader.readexactly(int(headers["content-length"]))
        except (OSError, EOFError) as error:
            return Reply(0, replayed=False, body=repr(error).encode())
        return Reply(int(first.split()[1]), headers.get("idempotent-replayed") == "true", body)

    async def retry(self, request: bytes) -> Reply:
        while True:
            self.writer.write(request)
            reply = await self.reply()
            if reply.status != UNAVAILABLE:
                return reply


def create_concurrently(name: str, rounds: int, folder: Path, clients: int = CLIENTS) -> ConcurrencyResult:
    api_key = new_api_key()
    with new_store(name, folder) as store, restartable_servers(folder, [store, store]) as servers:
        urls = [server.url for server in servers]
        result = asyncio.run(_run(ConcurrencyResult(name), rounds, clients, urls, api_key))
        with closing(Client(api_key, History())) as client:
            listings = [client.listing(url) for url in urls]
    for listing in listings:
        if sorted(entry.order for entry in listing) != sorted(map(_key, range(rounds))):
            result.violations.append(f"{len(listing)} payments are listed after {rounds} rounds")
    return result


def check_replies(key: str, replies: Sequence[Reply], refused: int = 0) -> Iterator[str]:
    """Violations in the replies to identical creations, of which so many were refused at first. A refused one
    may be the one that created the payment.
    """
    failed = [reply for reply in replies if reply.status != CREATED]
    if failed:
        yield f"{key}: {len(failed)} replies of {len(replies)} were not 201, such as {failed[0]}"
    created = [reply for reply in replies if reply.status == CREATED]
    if len({reply.body for reply in created}) > 1:
        yield f"{key}: the replies differ"
    executed = sum(not reply.replayed for reply in created)
    if executed > 1 or (executed == 0 and not refused):
        yield f"{key}: created {executed} times"


async def _run(
    result: ConcurrencyResult, rounds: int, clients: int, urls: Sequence[str], api_key: str
) -> ConcurrencyResult:
    connections: list[Connection] = []
    try:
        turns = itertools.cycle(urls)
        while len(connections) < clients:
            batch = itertools.islice(turns, min(_CONCURRENT_CONNECTS, clients - len(connections)))
            connections += await asyncio.gather(*map(_connect, batch))
        for number in range(rounds):
            await _run_round(result, _key(number), connections, api_key)
    finally:
        for connection in connections:
            connection.writer.close()
        await asyncio.gather(*(c.writer.wait_closed() for c in connections), return_exceptions=True)
    return result


async def _run_round(
    result: ConcurrencyResult, key: str, connections: Sequence[Connection], api_key: str
) -> None:
    headers = {
        "Authorization": f"Bearer {api_key}",
        "Idempotency-Key": key,
        "Content-Type": "application/json",
    }
    data = request("POST", "/v1/payments", headers, order_body(key))
    started = time.monotonic()
    for connection in connections:
        connection.writer.write(data)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        replies = await asyncio.gather(*(connection.reply() for connection in connections))
        result.slowest = max(result.slowest, time.monotonic() - started)
        refused = [number for number, reply in enumerate(replies) if reply.status == UNAVAILABLE]
        for number in refused:
            replies[number] = await connections[number].retry(data)
    if refused:
        result.late.append(f"{key}: {len(refused)} requests refused")
    result.rounds += 1
    result.replies += len(replies)
    result.violations += check_replies(key, replies, len(refused))


async def _connect(url: str) -> Connection:
    address = urlsplit(url)
    return Connection(*await asyncio.open_connection(address.hostname, address.port))


def _key(number: int) -> str:
    return f"concurrent-{number:04d}"
