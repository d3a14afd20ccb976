"""How processes share connections: several acceptors on one socket, in one event loop, so that none is
ever kept from its turn by another process.
"""

import asyncio
import socket
from contextlib import ExitStack

import pytest

from paymock.server.accept import Acceptor, ConnectionCounts


class Kept(asyncio.Protocol):
    """A connection that is added to those of a process, and kept."""

    def __init__(self, connections: list[asyncio.BaseTransport]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.append(transport)


class Sharer:
    """Process `number` of those that share `listening`: it keeps whatever it accepts."""

    def __init__(self, loads: ConnectionCounts, number: int, listening: socket.socket) -> None:
        self.connections: list[asyncio.BaseTransport] = []
        self._listening = listening.dup()  # a loop has one reader for each descriptor
        self._acceptor = Acceptor(
            loads, number, lambda: Kept(self.connections), self.connections.__len__, lambda: False
        )

    def open(self) -> None:
        self._acceptor.open([self._listening])

    async def close(self) -> None:
        await self._acceptor.close()
        self._listening.close()
        for connection in self.connections:
            connection.close()


async def shares(open_ones: list[bool], connections: int) -> list[int]:
    """How many each has of so many connections that come at once, if only those that are marked accept."""
    with ExitStack() as stack:
        listening = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=connections))
        listening.settimeout(0)
        loads = ConnectionCounts(len(open_ones))
        sharers = [Sharer(loads, number, listening) for number in range(len(open_ones))]
        for sharer, is_open in zip(sharers, open_ones, strict=True):
            if is_open:
                sharer.open()
        for _ in range(connections):
            stack.enter_context(socket.create_connection(listening.getsockname(), 5))
        async with asyncio.timeout(20):
            while sum(len(sharer.connections) for sharer in sharers) < connections:
                await asyncio.sleep(0)
        for sharer in sharers:
            await sharer.close()
        return [len(sharer.connections) for sharer in sharers]


@pytest.mark.parametrize("processes", [2, 3, 4])
def test_connections_that_come_at_once_are_shared_evenly(processes: int) -> None:
    found = asyncio.run(shares([True] * processes, 40))
    assert sum(found) == 40
    assert max(found) - min(found) <= 2, found


def test_who_is_not_there_is_left_nothing() -> None:
    assert asyncio.run(shares([True, False], 40)) == [40, 0]
