"""Balancing of connections between several acceptors of one socket. They run in one event loop and in virtual
time, so that none is delayed by the machine.
"""

import asyncio
import socket
from contextlib import ExitStack

from paymock.server.accept import Acceptor, ConnectionCounts
from tests.support.virtual_time import run


class OpenConnection(asyncio.Protocol):
    """A connection that stays open."""

    def __init__(self, connections: list[asyncio.BaseTransport]) -> None:
        self._connections = connections

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        self._connections.append(transport)


class Process:
    """The acceptor of a process, and the connections that it has accepted."""

    def __init__(self, counts: ConnectionCounts, number: int, listener: socket.socket) -> None:
        self.connections: list[asyncio.BaseTransport] = []
        self._listener = listener.dup()  # an event loop has one reader for each descriptor
        self._acceptor = Acceptor(
            counts,
            number,
            lambda: OpenConnection(self.connections),
            self.connections.__len__,
            close_idle=lambda: False,
        )

    def open(self) -> None:
        self._acceptor.open([self._listener])

    async def close(self) -> None:
        await self._acceptor.close()
        self._listener.close()
        for connection in self.connections:
            connection.close()


async def distribute(accepting: list[bool], connections: int) -> list[int]:
    """Open so many connections, and return how many each process accepted. `accepting` says which of them
    accept connections.
    """
    with ExitStack() as stack:
        listener = stack.enter_context(socket.create_server(("127.0.0.1", 0), backlog=connections))
        listener.settimeout(0)
        counts = ConnectionCounts(len(accepting))
        processes = [Process(counts, number, listener) for number in range(len(accepting))]
        for process, is_accepting in zip(processes, accepting, strict=True):
            if is_accepting:
                process.open()
        for _ in range(connections):
            stack.enter_context(socket.create_connection(listener.getsockname(), 60))
        async with asyncio.timeout(20):
            while sum(len(process.connections) for process in processes) < connections:
                await asyncio.sleep(0.001)
        for process in processes:
            await process.close()
        return [len(process.connections) for process in processes]


def test_connections_are_distributed_evenly_to_the_processes_that_accept() -> None:
    accepted = run(distribute([True, True, True], 40))
    assert sum(accepted) == 40
    assert max(accepted) - min(accepted) <= 2, accepted
    assert run(distribute([True, False], 40)) == [40, 0]
