import json
import os
import shlex
import signal
import socket
import subprocess
import sys
import threading
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from harness.server_process import PAYMOCK, environment, server_process
from paymock.rules.faults import MAX_HANG
from tests.support import raw
from tests.support.client import AUTHORIZED
from tests.support.servers import NEEDS_LINUX, ask, reply_on
from tests.system.hostile.graceful_stop import Case, stop_busy_server

pytestmark = pytest.mark.ci


def test_a_client_that_floods_does_not_delay_a_stop(tmp_path: Path) -> None:
    flooding, stop = threading.Event(), threading.Event()

    def flood(port: int) -> None:
        with socket.create_connection(("127.0.0.1", port), 0.1) as connection:
            while not stop.is_set():
                try:
                    connection.sendall(raw.request("GET", "/livez") * 500)
                except TimeoutError:
                    flooding.set()  # the buffers are full
                except ConnectionError:
                    return

    with server_process(tmp_path, "--no-access-log") as served, ThreadPoolExecutor(1) as pool:
        client = pool.submit(flood, served.port)
        assert flooding.wait(60)
        try:
            assert served.stop(signal.SIGTERM)[0] == 0
        finally:
            stop.set()
        client.result(60)


@pytest.mark.parametrize("fault", ["hang", "hang; before"])
def test_a_stop_ends_a_hanging_request_without_a_reply(tmp_path: Path, fault: str) -> None:
    with server_process(tmp_path) as served, httpx.Client(base_url=served.url, headers=AUTHORIZED) as client:
        client.post("/_mock/faults", json={"fault": fault, "times": None})
        connections = [ask(served, "/v1/chains") for _ in range(20)]
        wait_until(lambda: len(client.get("/_mock/requests").json()["data"]) == len(connections))
        started = time.monotonic()
        assert served.stop(signal.SIGTERM)[0] == 0
        assert time.monotonic() - started < MAX_HANG  # they would end by themselves
        assert [reply_on(connection) for connection in connections] == [b""] * len(connections)


@pytest.mark.parametrize(
    "case",
    [
        Case("SQLite", 1),
        pytest.param(Case("SQLite", 2), marks=NEEDS_LINUX),
        pytest.param(Case("Redis", 2), marks=[pytest.mark.redis, pytest.mark.nightly]),
    ],
    ids=lambda case: case.name,
)
def test_a_stop_under_load_loses_nothing(case: Case, tmp_path: Path) -> None:
    """`python -m tests.system.hostile` measures the duration, too."""
    result = stop_busy_server(case, tmp_path)
    assert not result.violations
    assert result.before
    assert result.during


@pytest.mark.parametrize(("program", "reason"), [("", "SIGHUP"), ("nohup", "SIGTERM")])
def test_a_server_ends_with_its_terminal(tmp_path: Path, program: str, reason: str) -> None:
    """Unless it was started by `nohup`, which closes file 0."""
    terminal = [sys.executable, "-c", "import pty, sys; pty.spawn(sys.argv[1:])", "sh", "-c"]
    script = f"exec {program} {shlex.join(PAYMOCK)} serve --port 0 --ready-file ready >log 2>&1 3<&0"
    with subprocess.Popen(
        [*terminal, script], cwd=tmp_path, stdin=subprocess.PIPE, env=environment()
    ) as process:
        wait_until((tmp_path / "ready").exists)
        pid = json.loads((tmp_path / "ready").read_text())["pid"]
        process.kill()  # which closes the terminal
    if reason == "SIGTERM":
        os.kill(pid, signal.SIGTERM)
    wait_until(lambda: not is_running(pid))
    log = (tmp_path / "log").read_text()
    assert log.endswith(f"\nstopped ({reason})\n")
    assert log.count("stopped") == 1
