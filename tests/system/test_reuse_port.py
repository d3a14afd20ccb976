"""The start and the stop of `paymock serve`, and several servers on one port."""

import json
import os
import signal
import socket
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack
from pathlib import Path

import httpx
import pytest

from harness.server_process import server_process, server_process_by_script
from tests.support import raw
from tests.support.client import AUTHORIZED
from tests.support.servers import NEEDS_LINUX, ask, create, one_connection_each, reply_on, servers_on_sqlite

pytestmark = [NEEDS_LINUX, pytest.mark.ci]


def test_servers_share_a_port_and_each_has_a_ready_file_and_metrics(tmp_path: Path) -> None:
    with servers_on_sqlite(tmp_path, "--metrics-address", "127.0.0.1:0") as servers:
        assert {served.port for served in servers} == {servers[0].port}
        assert [served.ready["pid"] for served in servers] == [served.process.pid for served in servers]
        assert len({served.ready["metrics"] for served in servers}) == 2
        with one_connection_each(servers[0]) as clients:
            payment = create(clients[0]).json()["id"]
            assert clients[1].get(f"/v1/payments/{payment}").status_code == 200
        for host in ("127.0.0.1", "[::1]"):
            assert httpx.get(f"http://{host}:{servers[0].port}/readyz").status_code == 200
        for served in servers:
            assert "paymock_requests_total{" in httpx.get(str(served.ready["metrics"])).text


@pytest.mark.nightly
def test_log_lines_of_two_servers_in_one_file_are_not_mixed(tmp_path: Path) -> None:
    requests, log = 1500, tmp_path / "log"

    def send_some(url: str) -> None:
        with httpx.Client(base_url=url, headers=AUTHORIZED) as client:
            for _ in range(requests // 10):
                client.get(f"/v1/payments/{'x' * 100}")

    with ExitStack() as stack:
        urls = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            script = f'exec "$@" --log json >>{log}'
            served = stack.enter_context(server_process_by_script(tmp_path / name, script))
            stack.callback(served.stop, signal.SIGTERM)
            urls.append(served.url)
        with ThreadPoolExecutor(10) as pool:
            list(pool.map(send_some, urls * 5))
    events = Counter(json.loads(line)["event"] for line in log.read_text().splitlines())
    assert events == {"started": 2, "request": requests, "stopped": 2}


# A stop


def test_a_stop_answers_the_connections_that_nobody_has_accepted(tmp_path: Path) -> None:
    """The server is paused, so that they wait in its queue; the other one has closed its queue."""
    with server_process(tmp_path) as served:
        os.kill(served.process.pid, signal.SIGSTOP)
        waiting = [ask(served, "/v1/chains") for _ in range(40)]
        late = [socket.create_connection(("127.0.0.1", served.port), 60) for _ in range(10)]
        os.kill(served.process.pid, signal.SIGTERM)
        os.kill(served.process.pid, signal.SIGCONT)
        for connection in late:
            connection.sendall(raw.request("GET", "/v1/chains", AUTHORIZED))
        assert served.stop(signal.SIGCONT)[0] == 0
        assert {reply_on(connection)[:15] for connection in [*waiting, *late]} == {b"HTTP/1.1 200 OK"}


def test_a_second_signal_ends_the_process_immediately(tmp_path: Path) -> None:
    """The server is paused, so that it gets both before it has stopped."""
    with server_process(tmp_path) as served:
        for number in (signal.SIGSTOP, signal.SIGINT, signal.SIGTERM):
            served.process.send_signal(number)
        assert served.stop(signal.SIGCONT)[0] == 128 + signal.SIGTERM
