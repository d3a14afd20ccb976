"""The figures of a server: what is counted, of one process or several, and what is not told."""

import os
import re
import signal
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.polling import wait_until
from harness.redis_engine import redis_server
from harness.server_process import ServerProcess, server_process
from paymock.rules.scenarios import SCENARIOS
from paymock.web.telemetry.metrics import BUCKETS, COURSE, METHODS, METRICS, SharedCounters, WorkerCounters
from tests.support import raw
from tests.support.client import ORDER, fresh_key, order
from tests.support.figures import figures, grown, requests
from tests.support.workers import server_with_workers, wait_for_successor, worker_behind, workers_of

KEY = "mk_test_canary_of_metrics"


AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


LOOPBACK = ("--metrics-address", "127.0.0.1:0")


class Watched:
    """A server that tells figures, and a client of it."""

    def __init__(self, served: ServerProcess, client: httpx.Client) -> None:
        self.served = served
        self.client = client
        self.metrics = str(served.ready["metrics"])

    def create(self, key: str | None = None, scenario: str | None = None, **changes: Any) -> httpx.Response:
        headers = {"Idempotency-Key": key or fresh_key()} | (
            {"X-Mock-Scenario": scenario} if scenario else {}
        )
        return self.client.post("/v1/payments", json=order(**changes), headers=headers)

    def figures(self) -> dict[tuple[str, ...], float]:
        return figures(self.metrics)


@contextmanager
def watched(tmp_path: Path, *arguments: str) -> Iterator[Watched]:
    with (
        server_process(tmp_path, *LOOPBACK, *arguments) as served,
        httpx.Client(base_url=served.url, headers=AUTHORIZED, timeout=10) as client,
    ):
        yield Watched(served, client)
        assert served.stop(signal.SIGTERM)[0] == 0


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Watched]:
    with watched(tmp_path_factory.mktemp("watched")) as found:
        yield found


# What is counted


def test_requests_are_counted_by_route_method_and_status(server: Watched) -> None:
    before, payment = server.figures(), server.create().json()["id"]
    for path in (
        f"/v1/payments/{payment}",
        f"/v1/payments/{payment}",
        "/v1/payments/pay_unknown",
        "/livez",
        "/a/b",
    ):
        server.client.get(path)
    server.client.head("/livez")
    server.client.delete("/v1/chains/bsc/assets")
    server.client.request("PATCH", "/v1/chains")
    httpx.get(f"{server.served.url}/v1/chains")
    raw.exchange(server.served.port, b"nonsense\r\n\r\n")
    assert requests(grown(server.figures(), before)) == {
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


def test_payments_are_counted_by_the_scenario_that_they_have_got(server: Watched) -> None:
    before = server.figures()
    server.create()
    server.create(scenario="late_payment")
    server.client.post("/_mock/next", json={"scenario": "overpaid_review", "times": 2})
    server.create()
    server.create()
    server.create(order_id=7)
    grew = grown(server.figures(), before)
    assert {key[1]: value for key, value in grew.items() if key[0] == "paymock_payments_created_total"} == {
        "happy_path": 1,
        "late_payment": 1,
        "overpaid_review": 2,
    }
    assert requests(grew)["POST", "/v1/payments", "422"] == 1


def test_every_scenario_is_there_before_it_is_chosen(tmp_path: Path) -> None:
    with watched(tmp_path) as fresh:
        found = fresh.figures()
    assert {
        key[1]: value for key, value in found.items() if key[0] == "paymock_payments_created_total"
    } == dict.fromkeys([*SCENARIOS, COURSE], 0)


def test_replays_and_conflicts_are_counted_and_are_no_payments(server: Watched) -> None:
    before, key = server.figures(), fresh_key()
    for amount in ("5", "5", "5", "6"):
        server.create(key, receive__amount=amount)
    grew = grown(server.figures(), before)
    assert grew["paymock_replays_total",] == 2
    assert grew["paymock_conflicts_total",] == 1
    assert grew["paymock_payments_created_total", "happy_path"] == 1


def test_a_conflict_is_counted_when_a_fault_replaces_its_reply(server: Watched) -> None:
    before, headers = server.figures(), {"Idempotency-Key": fresh_key(), "X-Mock-Fault": "status=500; after"}
    for order_id in ("order-1001", "order-1002"):
        server.client.post("/v1/payments", json={**ORDER, "order_id": order_id}, headers=headers)
    assert grown(server.figures(), before)["paymock_conflicts_total",] == 1


def test_a_reply_that_is_dropped_is_counted_as_such_and_its_payment_as_made(server: Watched) -> None:
    before = server.figures()
    headers = {"Idempotency-Key": fresh_key(), "X-Mock-Fault": "drop"}
    with pytest.raises(httpx.RemoteProtocolError):
        server.client.post("/v1/payments", json=dict(ORDER), headers=headers)
    grew = grown(server.figures(), before)
    assert requests(grew) == {("POST", "/v1/payments", "dropped"): 1}
    assert grew["paymock_payments_created_total", "happy_path"] == 1


@pytest.mark.redis
def test_what_the_store_does_not_answer_is_counted(tmp_path: Path) -> None:
    with redis_server() as engine, watched(tmp_path, "--store", engine.url) as found:
        wait_until(lambda: found.create().status_code == 201)
        before = found.figures()
        engine.kill()
        assert found.client.get("/readyz").status_code == 503
        fault = {"X-Mock-Fault": "status=503"}
        assert found.client.get("/v1/chains", headers=fault).status_code == 503
        grew = grown(found.figures(), before)
    assert grew["paymock_store_errors_total",] == 1
    assert requests(grew) == {("GET", "/readyz", "503"): 1, ("GET", "/v1/chains", "503"): 1}


def test_the_time_of_a_request_is_in_its_buckets(server: Watched) -> None:
    before, fault = server.figures(), {"X-Mock-Fault": "delay=1100"}
    for _ in range(2):
        server.client.get("/v1/chains", headers=fault)
    grew = grown(server.figures(), before)
    of_route = {key[1:]: value for key, value in grew.items() if "/v1/chains" in key}
    buckets = {key[0]: value for key, value in of_route.items() if len(key) == 3 and key[0] not in ("GET",)}
    assert buckets == {"5.0": 2, "30.0": 2, "+Inf": 2}
    name = "paymock_request_duration_seconds"
    assert grew[f"{name}_count", "GET", "/v1/chains"] == 2
    assert 2 < grew[f"{name}_sum", "GET", "/v1/chains"] < 10


def test_the_table_of_metrics_is_what_is_told(server: Watched) -> None:
    server.client.get("/livez")
    text = httpx.get(server.metrics).text
    assert re.findall("^# TYPE (.+) (.+)$", text, re.MULTILINE) == [(one.name, one.kind) for one in METRICS]
    assert re.findall("^# HELP [^ ]+ (.+)$", text, re.MULTILINE) == [one.help for one in METRICS]
    for metric in METRICS:
        [labels, *_] = re.findall(rf"^{metric.name}(?:_count)?(?:{{(.*)}})? ", text, re.MULTILINE)
        assert set(re.findall('([a-z]+)="', labels)) == set(metric.labels)


# What is not told


def test_nothing_that_a_client_makes_up_is_told(server: Watched) -> None:
    canary, address = "Canary-1f2e3d4c5b6a", ORDER["receive"]["address"]
    created = server.create(f"{canary}-key", order_id=canary, metadata={canary: canary}).json()
    made_up = [canary, KEY, address, created["id"], created["attempts"][0]["id"]]
    for word in made_up:
        for path in (
            f"/{word}",
            f"/v1/payments/{word}",
            f"/v1/chains/{word}/assets",
            f"/checkout/{word}",
            f"/livez?{word}",
        ):
            server.client.get(path)
            httpx.get(server.served.url + path, headers={"Authorization": f"Bearer {word}", "Host": word})
        raw.exchange(
            server.served.port, raw.request(word[:16].upper().replace("-", ""), "/livez", {word: word})
        )
        raw.exchange(server.served.port, f"{word}\r\n\r\n".encode())
        httpx.get(f"{server.metrics}?{word}", headers={"Authorization": f"Bearer {word}", "User-Agent": word})
    text = httpx.get(server.metrics).text
    for word in (*made_up, canary.lower(), "CANARY", address[2:], "mk_test"):
        assert word not in text
    assert set(re.findall('method="([^"]+)"', text)) <= set(METHODS)


def test_the_api_does_not_tell_figures_and_the_metrics_address_is_not_the_api(server: Watched) -> None:
    assert server.client.get("/metrics").status_code == 404
    told = httpx.URL(server.metrics)
    for path in ("/", "/v1/chains", "/_mock/clock", "/livez", "/metrics/"):
        assert httpx.get(told.copy_with(path=path), headers=AUTHORIZED).status_code == 404
    assert httpx.post(told).status_code == 405
    assert httpx.head(told).status_code == 200


def test_a_page_in_a_browser_cannot_read_the_figures(server: Watched) -> None:
    assert httpx.get(server.metrics, headers={"Host": "rebound.example"}).status_code == 421
    assert "access-control-allow-origin" not in httpx.get(server.metrics).headers


# Several processes


@pytest.mark.nightly
def test_figures_are_those_of_all_workers_and_none_goes_back_when_one_is_killed(tmp_path: Path) -> None:
    with server_with_workers(tmp_path, *LOOPBACK, workers=2) as served:
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


def test_what_there_is_no_room_for_is_counted_together() -> None:
    counters = WorkerCounters(SharedCounters(1), 0, ["/a"])
    methods = ("GET", "HEAD", "POST", "PUT", "DELETE", "OPTIONS")
    for method in methods:
        for status in range(100, 1000 - 1):
            counters.observe(0, method, status, 0.01)
    told = list(counters.series())
    assert sum(sum(one.buckets) for one in told) == len(methods) * 899
    [together] = [one for one in told if one.route == "other"]
    assert (together.method, together.status) == ("other", "other")
    assert sum(together.buckets) == len(methods) * 899 - (len(told) - 1) > 1
