"""Many identical creations at the same moment, on two servers."""

import asyncio
import time
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple
from urllib.parse import urlsplit

from tests.support.client import fresh_key
from tests.support.raw import request
from tests.system.faults.clients import AMOUNT, TIMEOUT_SECONDS, new_api_key, order_body
from tests.system.faults.history import NO_REPLY, UNAVAILABLE, Event, History, Kind
from tests.system.faults.restartable_server import new_store, restartable_servers
from tests.system.faults.verification import Result, retry, unacknowledged, verify

CLIENTS = 500
STORES = ("SQLite", "Redis")
_CONCURRENT_CONNECTS = 50


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
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
            return Reply(NO_REPLY, {}, repr(error).encode())
        return Reply(int(first.split()[1]), headers, body)


def create_concurrently(name: str, rounds: int, folder: Path, clients: int = CLIENTS) -> Result:
    result, history, api_key = Result(name), History(), new_api_key()
    with new_store(name, folder) as store, restartable_servers(folder, [store, store]) as servers:
        urls = [server.url for server in servers]
        for _ in range(rounds):
            for event in asyncio.run(_create(urls, clients, api_key)):
                history.add(event)
                if event.status == NO_REPLY:
                    result.violations.append(f"{event}: {event.body!r}")
                elif event.status == UNAVAILABLE:
                    result.late.append(f"{event}: refused")
        events = history.since()
        result.counts.update(rounds=rounds, replies=len(events))
        result.slowest = max(event.seconds for event in events)
        retry(result, urls, api_key, history, unacknowledged(events))
        for url in urls:
            verify(result, url, api_key, history)
    return result


async def _create(urls: Sequence[str], clients: int, api_key: str) -> list[Event]:
    """Let so many clients, each with a connection of its own, send one creation."""
    opening = asyncio.Semaphore(_CONCURRENT_CONNECTS)
    key = fresh_key()
    headers = {
        "Authorization": f"Bearer {api_key}",
        "Idempotency-Key": key,
        "Content-Type": "application/json",
    }
    data = request("POST", "/v1/payments", headers, order_body(key))

    async def connect(number: int) -> Connection:
        address = urlsplit(urls[number % len(urls)])
        async with opening:
            return Connection(*await asyncio.open_connection(address.hostname, address.port))

    async def reply(connection: Connection) -> Event:
        status, headers, body = await connection.reply()
        connection.writer.close()
        replayed, retry_after = headers.get("idempotent-replayed") == "true", headers.get("retry-after")
        ended = time.monotonic()
        return Event(Kind.CREATE, started, ended, status, body, key, "", AMOUNT, replayed, retry_after)

    connections = await asyncio.gather(*map(connect, range(clients)))
    started = time.monotonic()
    for connection in connections:
        connection.writer.write(data)
    async with asyncio.timeout(TIMEOUT_SECONDS):
        return await asyncio.gather(*map(reply, connections))
