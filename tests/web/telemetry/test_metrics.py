import json
import re
import signal
import socket
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness import server_process as processes
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import Settings
from paymock.web.telemetry.metrics import COUNTERS, COURSE, DURATION, METHODS
from tests.support import raw
from tests.support.client import fresh_key, order
from tests.support.server import RunningServer, running_server

AUTHORIZED = {"Authorization": "Bearer mk_test_metrics"}

Figures = dict[tuple[str, ...], float]
"""Values by the name of the sample and the values of its labels, in the order of their names."""


def figures(url: str) -> Figures:
    """All figures at `url`."""
    response = httpx.get(url, timeout=20)
    assert response.status_code == 200, response.text
    samples = [
        sample for family in text_string_to_metric_families(response.text) for sample in family.samples
    ]
    found = {
        (sample.name, *(sample.labels[name] for name in sorted(sample.labels))): sample.value
        for sample in samples
    }
    assert len(found) == len(samples)
    return found


def grown(after: Figures, before: Figures) -> Figures:
    return {key: value - before.get(key, 0) for key, value in after.items() if value != before.get(key, 0)}


def requests(found: Figures) -> Counter[tuple[str, ...]]:
    return Counter(
        {key[1:]: int(value) for key, value in found.items() if key[0] == "paymock_requests_total"}
    )


@dataclass
class Watched:
    """A server that tells figures, and a client of it."""

    server: RunningServer
    client: httpx.Client
    metrics: str

    def create(self, key: str | None = None, fault: str | None = None, **changes: Any) -> httpx.Response:
        headers = {"Idempotency-Key": key or fresh_key()} | ({"X-Mock-Fault": fault} if fault else {})
        return self.client.post("/v1/payments", json=order(**changes), headers=headers)

    def figures(self) -> Figures:
        return figures(self.metrics)


@pytest.fixture(scope="module")
def watched() -> Iterator[Watched]:
    with (
        running_server(Settings(port=0, metrics_address="127.0.0.1:0")) as server,
        httpx.Client(base_url=server.url, headers=AUTHORIZED, timeout=60) as client,
    ):
        yield Watched(server, client, str(server.metrics))


def payments(found: Figures) -> dict[str, float]:
    return {key[1]: value for key, value in found.items() if key[0] == "paymock_payments_created_total"}


# What is counted


def test_requests_are_counted_by_route_method_and_status(watched: Watched) -> None:
    before, payment = watched.figures(), watched.create().json()["id"]
    for path in (*[f"/v1/payments/{payment}"] * 2, "/v1/payments/pay_unknown", "/livez", "/a/b"):
        watched.client.get(path)
    watched.client.head("/livez")
    watched.client.delete("/v1/chains/bsc/assets")
    watched.client.request("PATCH", "/v1/chains")
    for data in (raw.request("GET", "/v1/chains"), b"nonsense\r\n\r\n"):
        raw.exchange(watched.server.port, data)
    assert requests(grown(watched.figures(), before)) == {
        ("POST", "/v1/payments", "201"): 1,
        ("GET", "/v1/payments/{payment_id}", "200"): 2,
        ("GET", "/v1/payments/{payment_id}", "404"): 1,
        ("GET", "/livez", "200"): 1,
        ("GET", "unknown", "404"): 1,
        ("HEAD", "/livez", "200"): 1,
        ("DELETE", "/v1/chains/{chain}/assets", "405"): 1,
        ("other", "/v1/chains", "405"): 1,
        ("GET", "/v1/chains", "401"): 1,
        ("other", "malformed", "400"): 1,
    }


def test_requests_with_a_valid_key_are_counted_and_logged_by_the_name_of_the_key() -> None:
    keys, names = ("first-key", "other-key"), (("first-key", "acme"),)
    settings = Settings(port=0, api_keys=keys, key_names=names, metrics_address="127.0.0.1:0", log="json")
    with running_server(settings) as server:
        for key in ("first-key", "first-key.branch", "other-key", "wrong-key", None):
            headers = {"Authorization": f"Bearer {key}"} if key else {}
            httpx.get(f"{server.url}/v1/chains", headers=headers)
        found = {key: value for key, value in figures(str(server.metrics)).items() if "_by_key_" in key[0]}
        logged = [json.loads(line).get("key") for line in server.log.getvalue().splitlines()]
    assert found == {
        ("paymock_requests_by_key_total", "acme", "200"): 2,
        ("paymock_requests_by_key_total", "other", "200"): 1,
    }
    assert logged[:5] == ["acme", "acme", None, None, None]
    assert "-key" not in server.log.getvalue()


def test_payments_are_counted_by_the_scenario_that_they_have_got(watched: Watched) -> None:
    before = watched.figures()
    assert payments(before).keys() == {*SCENARIOS, COURSE}, "all are there before one is chosen"
    watched.create()
    watched.client.post("/_mock/next", json={"scenario": "overpaid_review", "times": 2})
    watched.create()
    watched.create()
    watched.create(order_id=7)
    grew = grown(watched.figures(), before)
    assert payments(grew) == {"happy_path": 1, "overpaid_review": 2}
    assert requests(grew)["POST", "/v1/payments", "422"] == 1


def test_replays_and_conflicts_are_counted_even_if_a_fault_replaces_the_reply(watched: Watched) -> None:
    before, key = watched.figures(), fresh_key()
    for amount, fault in (("5", None), ("5", None), ("5", None), ("6", None), ("7", "status=500; after")):
        watched.create(key, fault, receive__amount=amount)
    grew = grown(watched.figures(), before)
    assert grew["paymock_replays_total",] == 2
    assert grew["paymock_conflicts_total",] == 2
    assert payments(grew) == {"happy_path": 1}


def test_a_reply_that_is_dropped_is_counted_as_such_and_its_payment_as_made(watched: Watched) -> None:
    before = watched.figures()
    with pytest.raises(httpx.RemoteProtocolError):
        watched.create(fault="drop")
    grew = grown(watched.figures(), before)
    assert requests(grew) == {("POST", "/v1/payments", "dropped"): 1}
    assert payments(grew) == {"happy_path": 1}


def test_what_the_store_does_not_answer_is_counted_and_logged_once(
    watched: Watched, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise PaymockError("store_unavailable")

    before = watched.figures()
    with monkeypatch.context() as patch:
        for name in ("get", "ping"):
            patch.setattr(watched.server.store, name, fail)
        assert [watched.client.get("/readyz").status_code for _ in range(2)] == [503, 503]
    assert watched.server.log.getvalue().count("Warning: The store cannot be reached.") == 1
    assert watched.client.get("/v1/chains", headers={"X-Mock-Fault": "status=503"}).status_code == 503
    grew = grown(watched.figures(), before)
    assert grew["paymock_store_errors_total",] == 2
    assert requests(grew) == {("GET", "/readyz", "503"): 2, ("GET", "/v1/chains", "503"): 1}


def test_the_time_of_a_request_is_in_its_buckets(watched: Watched) -> None:
    before = watched.figures()
    for _ in range(2):
        watched.client.get("/v1/chains", headers={"X-Mock-Fault": "delay=110"})
    grew = grown(watched.figures(), before)
    name, route = "paymock_request_duration_seconds", ("GET", "/v1/chains")
    buckets = {key[1]: value for key, value in grew.items() if key[0] == f"{name}_bucket"}
    assert min(map(float, buckets)) > 0.11
    assert buckets["+Inf"] == grew[f"{name}_count", *route] == 2
    assert grew[f"{name}_sum", *route] > 0.2  # a timer of an event loop may be a little early


def test_each_metric_has_its_type_text_and_labels_and_only_those(watched: Watched) -> None:
    watched.client.get("/livez")
    text = re.sub("(?m)^.*process_.*\n", "", httpx.get(watched.metrics, timeout=60).text)
    name, help_text, labels = DURATION
    expected = [(name, "counter", *about) for name, about in COUNTERS.items()]
    expected.append((name, "histogram", labels, help_text))
    assert re.findall("^# TYPE (.+) (.+)$", text, re.MULTILINE) == [row[:2] for row in expected]
    assert re.findall("^# HELP [^ ]+ (.+)$", text, re.MULTILINE) == [row[3] for row in expected]
    for metric, _, names, _ in expected:
        [found, *_] = re.findall(rf"^{metric}(?:_count)?(?:{{(.*)}})? ", text, re.MULTILINE)
        assert set(re.findall('([a-z]+)="', found)) == set(names)
    assert set(re.findall('method="([^"]+)"', text)) <= set(METHODS)


def test_the_api_does_not_tell_figures_and_the_metrics_address_is_not_the_api(watched: Watched) -> None:
    assert watched.client.get("/metrics").status_code == 404
    told = httpx.URL(watched.metrics)
    for path in ("/", "/v1/chains", "/_mock/clock", "/livez", "/metrics/"):
        assert watched.client.get(told.copy_with(path=path)).status_code == 404
    assert watched.client.post(told).status_code == 405
    assert watched.client.head(told).status_code == 200


def test_a_page_in_a_browser_cannot_read_the_figures(watched: Watched) -> None:
    assert watched.client.get(watched.metrics, headers={"Host": "rebound.example"}).status_code == 421
    assert "access-control-allow-origin" not in watched.client.get(watched.metrics).headers


# The address


@pytest.mark.parametrize("allowed", [{"open": True}, {"api_keys": ("secret-one",)}])
def test_an_address_beyond_loopback_is_allowed_with_a_key_or_in_open_mode(allowed: dict[str, Any]) -> None:
    with running_server(Settings(port=0, metrics_address="0.0.0.0:0", **allowed)) as server:
        assert server.metrics is not None
        assert httpx.get(server.metrics, headers={"Host": "scraped.example"}).status_code == 200


@pytest.mark.process
def test_without_the_extra_a_server_without_metrics_runs(tmp_path: Path) -> None:
    (tmp_path / "prometheus_client.py").write_text("raise ImportError('not installed')")
    with processes.server_process(tmp_path, PYTHONPATH=str(tmp_path)) as served:
        assert "metrics" not in served.ready
        assert httpx.get(f"{served.url}/livez").status_code == 200
    refused = processes.run("serve", "--metrics-address", "127.0.0.1:0", PYTHONPATH=str(tmp_path))
    assert refused.returncode == 1
    assert "pip install 'paymock[metrics]'" in refused.stderr


@pytest.mark.process
def test_the_metrics_have_an_address_and_do_not_delay_a_stop(tmp_path: Path) -> None:
    with processes.server_process(tmp_path, "--metrics-address", "[::1]:0") as served:
        metrics_url = str(served.ready["metrics"])
        assert metrics_url.startswith("http://[::1]:")
        address = ("::1", httpx.URL(metrics_url).port or 0)
        with (
            httpx.Client() as idle,
            socket.create_connection(address, 60) as slow,
            socket.create_connection(address, 5),
        ):
            assert idle.get(metrics_url).status_code == 200
            slow.sendall(b"GET /metrics HTTP/1.1\r\nHost: loc")
            status, output = served.stop(signal.SIGTERM)  # which must not take long
    assert status == 0
    assert f"\n  Metrics   {metrics_url}\n" in output
