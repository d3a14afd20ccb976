import os
import re
import signal
from collections import Counter
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest
from prometheus_client.parser import text_string_to_metric_families

from harness.polling import wait_until
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import fingerprint, sandbox_of
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import Settings
from paymock.web.telemetry.metrics import (
    BUCKETS,
    COURSE,
    KEY_REQUESTS,
    METHODS,
    METRICS,
    SharedCounters,
    WorkerCounters,
)
from tests.support import raw
from tests.support.client import ORDER, fresh_key, order
from tests.support.server import RunningServer, running_server
from tests.support.workers import server_with_workers, wait_for_successor, worker_behind, workers_of

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


def test_what_the_store_does_not_answer_is_counted(watched: Watched, monkeypatch: pytest.MonkeyPatch) -> None:
    async def fail(*_: object, **__: object) -> None:
        raise PaymockError("store_unavailable")

    before = watched.figures()
    with monkeypatch.context() as patch:
        for name in ("get", "ping"):
            patch.setattr(watched.server.store, name, fail)
        assert watched.client.get("/readyz").status_code == 503
    assert watched.client.get("/v1/chains", headers={"X-Mock-Fault": "status=503"}).status_code == 503
    grew = grown(watched.figures(), before)
    assert grew["paymock_store_errors_total",] == 1
    assert requests(grew) == {("GET", "/readyz", "503"): 1, ("GET", "/v1/chains", "503"): 1}


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


def test_the_table_of_metrics_is_what_is_told(watched: Watched) -> None:
    watched.client.get("/livez")
    text = httpx.get(watched.metrics, timeout=60).text
    assert re.findall("^# TYPE (.+) (.+)$", text, re.MULTILINE) == [(one.name, one.kind) for one in METRICS]
    assert re.findall("^# HELP [^ ]+ (.+)$", text, re.MULTILINE) == [one.help for one in METRICS]
    for metric in {*METRICS} - {KEY_REQUESTS}:  # which an open server does not have
        [labels, *_] = re.findall(rf"^{metric.name}(?:_count)?(?:{{(.*)}})? ", text, re.MULTILINE)
        assert set(re.findall('([a-z]+)="', labels)) == set(metric.labels)
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


def test_requests_are_counted_by_the_configured_key_and_not_by_its_sandboxes() -> None:
    keys = ["team-a", "team-b", "team-a.ci", "unknown", "team-a"]
    with running_server(
        Settings(port=0, metrics_address="127.0.0.1:0", api_keys=("team-a", "team-b"))
    ) as server:
        for key in keys:
            for path in ("/v1/chains", "/_mock/clock"):
                httpx.get(server.url + path, headers={"Authorization": f"Bearer {key}"})
        found = figures(str(server.metrics))
    assert {key[1:]: number for key, number in found.items() if key[0] == KEY_REQUESTS.name} == {
        (fingerprint(sandbox_of("team-a")),): 3,
        (fingerprint(sandbox_of("team-b")),): 1,
    }


# Several processes


@pytest.mark.nightly
def test_figures_are_those_of_all_workers_and_none_goes_back_when_one_is_killed(tmp_path: Path) -> None:
    with server_with_workers(tmp_path, "--metrics-address", "127.0.0.1:0", workers=2) as served:
        metrics, seen = str(served.ready["metrics"]), set[str]()

        def ask(times: int) -> None:
            for _ in range(times):  # over a connection each, so that the workers take turns
                reply = httpx.get(f"{served.url}/v1/chains", headers=AUTHORIZED)
                assert reply.status_code == 200
                seen.add(worker_behind(reply))

        def counted() -> int:
            return requests(figures(metrics))["GET", "/v1/chains", "200"]

        ask(30)
        headers = {**AUTHORIZED, "Idempotency-Key": fresh_key(), "X-Mock-Scenario": "late_payment"}
        httpx.post(f"{served.url}/v1/payments", json=dict(ORDER), headers=headers)
        wait_until(lambda: counted() == 30)
        for asked, killed in enumerate(sorted(workers_of(served.process)), start=1):
            os.kill(killed, signal.SIGKILL)
            wait_for_successor(served, killed)
            assert counted() == 30 * asked
            ask(30)
            wait_until(partial(lambda expected: counted() == expected, 30 * asked + 30))
        assert figures(metrics)["paymock_payments_created_total", "late_payment"] == 1
        assert len(seen) > 2  # they were of more processes than there are at a time
        assert served.stop(signal.SIGTERM)[0] == 0


def test_a_successor_goes_on_from_the_figures_of_its_predecessor() -> None:
    shared = SharedCounters(workers=2)
    first, other = (WorkerCounters(shared, number, ["/a", "/b"]) for number in (0, 1))
    first.observe(0, "GET", 200, 0.001)
    other.observe(0, "GET", 200, 40)
    other.observe(1, "PUT", 404, 0.1)
    WorkerCounters(shared, 0, ["/a", "/b"]).observe(0, "GET", 200, 0.0011)
    told = {(one.route, one.method, one.status): (one.buckets, one.seconds) for one in first.series()}
    at = {bound: place for place, bound in enumerate(BUCKETS)}
    expected = [0] * (len(BUCKETS) + 1)
    expected[at[0.001]] = expected[at[0.0025]] = expected[-1] = 1
    assert told["/a", "GET", "200"][0] == expected
    assert told["/a", "GET", "200"][1] == pytest.approx(40.0021)
    assert sum(told["/b", "PUT", "404"][0]) == 1
    assert len(told) == 2


def test_the_counts_of_keys_are_added_as_far_as_there_is_room() -> None:
    shared = SharedCounters(workers=2)
    for worker in (0, 0, 1):
        WorkerCounters(shared, worker, []).count_key("abcdefgh")
    counters = WorkerCounters(shared, 0, [])
    for number in range(300):
        counters.count_key(f"key{number:05}")
    told = {labels: value for metric, labels, value in counters.counters() if metric is KEY_REQUESTS}
    assert told["abcdefgh",] == 3
    assert len(told) == 256


def test_what_there_is_no_room_for_is_counted_together() -> None:
    counters = WorkerCounters(SharedCounters(1), 0, ["/a"])
    methods = METHODS[:5]
    for method in methods:
        for status in range(100, 1000 - 1):
            counters.observe(0, method, status, 0.01)
    told = list(counters.series())
    assert sum(sum(one.buckets) for one in told) == len(methods) * 899
    [together] = [one for one in told if one.route == "other"]
    assert (together.method, together.status) == ("other", "other")
    assert sum(together.buckets) == len(methods) * 899 - (len(told) - 1) > 1
