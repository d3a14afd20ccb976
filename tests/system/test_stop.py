"""How a server ends: in time, and without losing what it has promised."""

import contextlib
import signal
import socket
import time
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import httpx
import pytest

from harness.server_process import server_process
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER
from tests.system.hostile.stop import CASES, IN_PROGRESS, MOST_SECONDS, Case, stopped

CREATION = {**AUTHORIZED, "Content-Type": "application/json", "Idempotency-Key": "order-1001-payment"}


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_a_signal_stops_the_server_with_status_0(tmp_path: Path, number: int) -> None:
    with server_process(tmp_path) as served:
        assert served.stop(number)[0] == 0


def test_clients_in_mid_request_do_not_hold_up_a_stop(tmp_path: Path) -> None:
    post = raw.request("POST", "/v1/payments", {**CREATION, "Content-Length": "100"})
    with server_process(tmp_path) as served:
        clients = [socket.create_connection(("127.0.0.1", served.port), 5) for _ in range(30)]
        for index, client in enumerate(clients):
            client.sendall([b"GET /v1/chains HTTP/1.1\r\nHost: loc", post + b"{", b""][index % 3])
        assert httpx.get(f"{served.url}/livez").status_code == 200
        started = time.monotonic()
        status, _ = served.stop(signal.SIGTERM)
        assert (status, time.monotonic() - started < 5) == (0, True)
        for client in clients:
            client.close()


def test_a_client_that_floods_does_not_hold_up_a_stop(tmp_path: Path) -> None:
    ping = raw.request("GET", "/livez") * 500
    with server_process(tmp_path) as served, socket.create_connection(("127.0.0.1", served.port), 5) as flood:
        flood.settimeout(0.2)
        with contextlib.suppress(TimeoutError):
            for _ in range(1000):
                flood.send(ping)
        started = time.monotonic()
        status, _ = served.stop(signal.SIGTERM)
    assert (status, time.monotonic() - started < 5) == (0, True)


def test_a_stop_ends_a_wait_with_a_reply(tmp_path: Path) -> None:
    with server_process(tmp_path) as served, httpx.Client(base_url=served.url, headers=AUTHORIZED) as client:
        headers = {"Idempotency-Key": "order-1001-payment"}
        payment_id = client.post("/v1/payments", json={**ORDER}, headers=headers).json()["id"]
        with ThreadPoolExecutor(1) as pool:
            target = f"/_mock/payments/{payment_id}/wait?status=completed&timeout=30"
            wait = pool.submit(client.get, target)
            with pytest.raises(TimeoutError):
                wait.result(0.3)
            started = time.monotonic()
            assert served.stop(signal.SIGTERM)[0] == 0
            assert time.monotonic() - started < 2.5
            reply = wait.result(1)
    assert (reply.status_code, reply.json()["reached"]) == (200, False)
    assert reply.json()["payment"]["id"] == payment_id
    assert reply.headers["x-request-id"].startswith("req_")


def test_what_takes_too_long_for_a_stop_gets_no_reply(tmp_path: Path) -> None:
    slow = {**AUTHORIZED, "Idempotency-Key": "slow-request", "X-Mock-Fault": "delay=30000"}
    with (
        server_process(tmp_path) as served,
        socket.create_connection(("127.0.0.1", served.port), 10) as client,
    ):
        client.sendall(raw.request("GET", "/v1/chains", slow))
        assert httpx.get(f"{served.url}/livez").status_code == 200
        started = time.monotonic()
        status, _ = served.stop(signal.SIGTERM)
        assert (status, time.monotonic() - started < 5) == (0, True)
        assert client.recv(4096) == b""


def wait_until_it_no_longer_listens(url: str) -> None:
    """The sign that a server has taken a signal."""
    with contextlib.suppress(httpx.TransportError):
        while httpx.get(f"{url}/livez").status_code:
            pass


def test_a_second_signal_ends_the_server_at_once(tmp_path: Path) -> None:
    with (
        server_process(tmp_path) as served,
        socket.create_connection(("127.0.0.1", served.port), 5) as client,
    ):
        client.sendall(raw.request("POST", "/v1/payments", {**CREATION, "Content-Length": "9"}))
        assert httpx.get(f"{served.url}/livez").status_code == 200
        served.process.send_signal(signal.SIGTERM)
        wait_until_it_no_longer_listens(served.url)
        assert served.process.poll() is None
        assert served.stop(signal.SIGTERM)[0] == 128 + signal.SIGTERM


@pytest.mark.parametrize("case", CASES, ids=lambda case: case.name)
def test_a_stop_in_the_middle_of_everything_is_in_time_and_loses_nothing(case: Case, tmp_path: Path) -> None:
    """As `python -m tests.system.hostile` measures it."""
    outcome = stopped(case, tmp_path)
    assert not outcome.violations
    assert outcome.seconds < MOST_SECONDS
    assert outcome.before > IN_PROGRESS
    assert outcome.during >= IN_PROGRESS
