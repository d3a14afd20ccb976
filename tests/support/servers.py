"""Several `paymock serve --reuse-port` on one port, and clients of them."""

import socket
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.server_process import ServerProcess, servers_on_one_port
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER, fresh_key

NEEDS_LINUX = pytest.mark.skipif(sys.platform != "linux", reason="needs Linux: /proc, or SO_REUSEPORT")


def servers_on_sqlite(
    tmp_path: Path, *arguments: str, count: int = 2
) -> AbstractContextManager[list[ServerProcess]]:
    """Servers on one port and one SQLite file."""
    return servers_on_one_port(tmp_path, count, "--store", f"sqlite://{tmp_path}/store.db", *arguments)


def server_behind(response: httpx.Response | raw.RawReply) -> str:
    return response.headers["x-request-id"].rpartition("_")[0]


@contextmanager
def connections(served: ServerProcess, count: int) -> Iterator[list[httpx.Client]]:
    with ExitStack() as stack:
        yield [
            stack.enter_context(httpx.Client(base_url=served.url, headers=AUTHORIZED, timeout=60))
            for _ in range(count)
        ]


@contextmanager
def one_connection_each(served: ServerProcess, count: int = 2) -> Iterator[list[httpx.Client]]:
    """A client of each of `count` servers on one port: as many connections are opened as it takes for all of
    them to accept one.
    """
    with ExitStack() as stack:
        by_server: dict[str, httpx.Client] = {}

        def all_accepted_one() -> bool:
            [client] = stack.enter_context(connections(served, 1))
            by_server.setdefault(server_behind(client.get("/livez")), client)
            return len(by_server) == count

        wait_until(all_accepted_one)
        yield list(by_server.values())


def create(client: httpx.Client, key: str | None = None) -> httpx.Response:
    return client.post("/v1/payments", json=dict(ORDER), headers={"Idempotency-Key": key or fresh_key()})


def ask(served: ServerProcess, path: str, headers: dict[str, str] | None = None) -> socket.socket:
    """A connection on which a request was sent."""
    connection = socket.create_connection(("127.0.0.1", served.port), 60)
    connection.sendall(raw.request("GET", path, {**AUTHORIZED, **(headers or {})}))
    return connection


def reply_on(connection: socket.socket) -> bytes:
    """All data until the server closes the connection."""
    with connection:
        return b"".join(iter(lambda: connection.recv(65536), b""))


def wait_until_refused(served: ServerProcess) -> None:
    def refused() -> bool:
        try:
            socket.create_connection(("127.0.0.1", served.port), 1).close()
        except ConnectionRefusedError:
            return True
        return False

    wait_until(refused)
