"""The log of a running server: one line a request, nothing secret, and never a reason to stop."""

import json
import os
import re
import signal
from pathlib import Path

import httpx

from harness.server_process import server_process
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER


def test_configured_keys_are_counted_and_never_shown(tmp_path: Path) -> None:
    with server_process(tmp_path, "--api-key", "secret-one", "--api-key", "secret-two") as served:
        httpx.get(f"{served.url}/v1/chains", headers={"Authorization": "Bearer secret-one"})
        httpx.get(f"{served.url}/v1/payments/secret-two", headers={"Authorization": "Bearer wrong-key"})
        address = ORDER["receive"]["address"]
        encoded = [address.replace("x5", "%785"), address.replace("53", "%35%33", 1), "secret%2Done"]
        for hidden in (address, address[2:], *encoded, "m%6B_test_demo", "whsec_" + "0" * 64):
            httpx.get(f"{served.url}/v1/payments/{hidden}", headers=AUTHORIZED)
        _, output = served.stop(signal.SIGTERM)
    assert "2 configured" in output
    assert not re.search("secret|wrong-key|mk_test|whsec_0|5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed", output)


def test_each_request_is_one_line_of_text(tmp_path: Path) -> None:
    with server_process(tmp_path) as served:
        response = httpx.get(f"{served.url}/v1/payments/pay_x?secret=1", headers=AUTHORIZED)
        _, output = served.stop(signal.SIGTERM)
    line = output.splitlines()[-1]
    pattern = r"\d\d:\d\d:\d\d  404  GET   /v1/payments/pay_x  payment_not_found  [\d.]+ ms  req_\w+"
    assert re.fullmatch(pattern, line)
    assert line.endswith(response.headers["x-request-id"])


def test_each_request_is_one_line_of_json(tmp_path: Path) -> None:
    with server_process(tmp_path, "--log", "json") as served:
        for _ in range(2):
            httpx.post(
                f"{served.url}/v1/payments",
                json={**ORDER},
                headers={**AUTHORIZED, "Idempotency-Key": "order-1001-payment"},
            )
        httpx.get(f"{served.url}/nowhere")
        raw.exchange(served.port, b"nonsense\r\n\r\n")
        _, output = served.stop(signal.SIGTERM)
    started, created, replayed, refused, malformed = map(json.loads, output.splitlines())
    assert (started["event"], started["url"], started["mock"]) == ("started", served.url, True)
    assert (created["method"], created["path"], created["status"]) == ("POST", "/v1/payments", 201)
    assert ("replayed" in created, replayed["replayed"]) == (False, True)
    assert (refused["status"], refused["error"]) == (404, "not_found")
    assert (malformed["status"], malformed["error"]) == (400, "bad_request")
    for line in (created, replayed, refused, malformed):
        assert line["request_id"].startswith("req_")
        assert line["duration_ms"] >= 0


def log_of_replays(folder: Path, form: str) -> list[str]:
    """The lines of two creations of a payment, one with another scenario, and two of a webhook endpoint."""
    with server_process(folder, "--log", form) as served:
        for scenario in ("late_payment", "late_payment", "happy_path"):
            headers = {"Idempotency-Key": "order-1001-payment", "X-Mock-Scenario": scenario}
            httpx.post(f"{served.url}/v1/payments", json={**ORDER}, headers={**AUTHORIZED, **headers})
        for _ in range(2):
            headers = {**AUTHORIZED, "Idempotency-Key": "order-1001-endpoint"}
            body = {"url": "https://merchant.example/hooks"}
            httpx.post(f"{served.url}/v1/webhooks", json=body, headers=headers)
        _, output = served.stop(signal.SIGTERM)
    return output.splitlines()[-5:]


WARNING = "replayed payment follows late_payment, not happy_path"


def test_replays_are_marked_in_text(tmp_path: Path) -> None:
    lines = log_of_replays(tmp_path, "text")
    notes = [re.sub(r".*?/v1/\w+  (.*?)(  )?[\d.]+ ms  .*", r"\1", line) for line in lines]
    assert notes == ["", "replayed", WARNING, "", "replayed"]


def test_replays_are_marked_in_json(tmp_path: Path) -> None:
    entries = [*map(json.loads, log_of_replays(tmp_path, "json"))]
    fields = [(entry.get("replayed"), entry.get("warning")) for entry in entries]
    assert fields == [(None, None), (True, None), (True, WARNING), (None, None), (True, None)]


def test_the_access_log_can_be_left_out(tmp_path: Path) -> None:
    with server_process(tmp_path, "--no-access-log") as served:
        httpx.get(f"{served.url}/v1/chains", headers=AUTHORIZED)
        _, output = served.stop(signal.SIGTERM)
    assert "/v1/chains" not in output


def test_a_reader_of_the_log_that_goes_away_does_not_stop_the_server(tmp_path: Path) -> None:
    with server_process(tmp_path) as served:
        assert served.process.stdout is not None
        served.process.stdout.close()
        assert [httpx.get(f"{served.url}/livez").status_code for _ in range(3)] == [200, 200, 200]


def test_a_reader_of_the_log_that_does_not_read_does_not_stop_the_server(tmp_path: Path) -> None:
    with server_process(tmp_path) as served, httpx.Client(base_url=served.url) as client:
        assert served.process.stdout is not None
        for _ in range(2000):  # more than a pipe holds
            assert client.get("/livez").status_code == 200
        os.read(served.process.stdout.fileno(), 65536)
        client.get("/readyz")
        _, output = served.stop(signal.SIGTERM)
    left_out, last = output.splitlines()[-2:]
    assert re.fullmatch(r"\(\d+ lines left out: nobody was reading\)", left_out)
    assert "/readyz" in last
