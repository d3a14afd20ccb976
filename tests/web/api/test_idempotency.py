"""Idempotency as specified: replay, conflict, and what leaves a key free."""

import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from threading import Barrier

import httpx
import pytest

from harness.redis_engine import redis_server
from harness.server_process import server_process
from paymock.resources.records import PaymentRecord
from paymock.rules.identifiers import sandbox_of
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER, Api, error_of, fresh_key, order
from tests.support.contract import Contract
from tests.support.server import RunningServer

CONFLICT = (409, "idempotency_key_reused_with_different_payload")


@pytest.mark.parametrize("second", [0, 9, 60, 10**9])
def test_a_replay_is_the_original_reply_byte_for_byte(api: Api, server: RunningServer, second: int) -> None:
    first = api.create(key="order-1001-payment")
    server.clock.advance(second)
    replay = api.create(key="order-1001-payment")
    assert (replay.status_code, replay.content) == (201, first.content)
    for name in ("location", "link"):
        assert replay.headers[name] == first.headers[name]
    assert replay.headers["idempotent-replayed"] == "true"
    assert "idempotent-replayed" not in first.headers


def test_a_replay_after_expires_at_is_still_a_replay(api: Api, server: RunningServer) -> None:
    body = order(expires_at="2030-01-31T12:00:01Z")
    first = api.create(body, key="order-1001-payment")
    server.clock.advance(3600)
    assert api.create(body, key="order-1001-payment").content == first.content


def test_the_order_of_members_and_white_space_do_not_matter(api: Api) -> None:
    first = api.create(key="order-1001-payment")
    turned = json.dumps(dict(reversed(order().items())), indent=4)
    replay = api.post(
        "/v1/payments",
        content=turned,
        headers={"Idempotency-Key": "order-1001-payment", "Content-Type": "application/json"},
    )
    assert replay.content == first.content


def test_the_scenario_is_not_part_of_the_comparison(api: Api, server: RunningServer) -> None:
    first = api.create(key="order-1001-payment", scenario="no_payment_expired")
    assert api.create(key="order-1001-payment", scenario="happy_path").content == first.content
    server.clock.advance(30)
    assert api.payment(first.json()["id"])["status"] == "expired"


@pytest.mark.parametrize("path", ["/v1/payments", "/v1/payments?not=on-the-fast-path"])
def test_a_replay_with_another_scenario_has_a_warning(api: Api, path: str) -> None:
    scenarios = ("late_payment", "late_payment", None, "happy_path", "happy_path")
    first, *replays = [api.create(key="order-1001-payment", scenario=each, path=path) for each in scenarios]
    warning = "replayed payment follows late_payment, not happy_path"
    assert "x-mock-warning" not in first.headers
    assert [reply.headers.get("x-mock-warning") for reply in replays] == [None, None, warning, warning]
    assert {reply.content for reply in replays} == {first.content}
    assert "X-Mock-Warning" in first.headers["access-control-expose-headers"]


def test_a_replay_without_a_scenario_header_has_no_warning(api: Api) -> None:
    api.post("/_mock/next", json={"scenario": "late_payment"})
    for _ in range(2):
        assert "x-mock-warning" not in api.create(key="order-1001-payment").headers
    replay = api.create(key="order-1001-payment", scenario="happy_path")
    assert replay.headers["x-mock-warning"] == "replayed payment follows late_payment, not happy_path"


def test_the_scenario_of_a_stored_payment_is_known_after_a_restart(tmp_path: Path) -> None:
    replays_warn(tmp_path, f"sqlite://{tmp_path}/store.db")


@pytest.mark.redis
def test_the_scenario_of_a_payment_in_redis_is_known_after_a_restart(tmp_path: Path) -> None:
    with redis_server() as engine:
        replays_warn(tmp_path, engine.url)


def replays_warn(tmp_path: Path, store: str) -> None:
    headers = {**AUTHORIZED, "Idempotency-Key": "order-1001-payment"}
    warnings = []
    for scenario in ("late_payment", "happy_path"):
        folder = tmp_path / scenario
        folder.mkdir()
        with server_process(folder, "--store", store) as served:
            reply = httpx.post(
                f"{served.url}/v1/payments", json=ORDER, headers={**headers, "X-Mock-Scenario": scenario}
            )
            warnings.append(reply.headers.get("x-mock-warning"))
    assert warnings == [None, "replayed payment follows late_payment, not happy_path"]


@pytest.mark.parametrize(
    "changes",
    [
        {"order_id": "order-1002"},
        {"receive__amount": "1000000000000000001"},
        {"receive__address": "0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"},
        {"metadata": {"customer_id": "c_2"}},
        {"metadata": None},
        {"refund_to": ...},
        {"order_id": 5},
        {"expires_at": "2001-01-01T00:00:00Z"},
    ],
)
def test_another_body_under_the_same_key_is_a_conflict(api: Api, changes: dict[str, object]) -> None:
    first = api.create(key="order-1001-payment")
    assert error_of(api.create(order(**changes), key="order-1001-payment")) == CONFLICT
    assert api.create(key="order-1001-payment").content == first.content


def test_the_same_key_on_another_endpoint_is_a_conflict(api: Api) -> None:
    api.create(key="order-1001-payment")
    assert (
        error_of(api.create({"url": "https://x.example"}, key="order-1001-payment", path="/v1/webhooks"))
        == CONFLICT
    )
    api.create({"url": "https://x.example"}, key="webhook-endpoint-1", path="/v1/webhooks")
    assert error_of(api.create(key="webhook-endpoint-1")) == CONFLICT


def test_a_webhook_endpoint_replays_with_its_secret(api: Api) -> None:
    first, replay = (
        api.create({"url": "https://x.example"}, key="webhook-endpoint-1", path="/v1/webhooks")
        for _ in range(2)
    )
    assert replay.content == first.content
    assert replay.headers["idempotent-replayed"] == "true"
    assert len(api.get("/v1/webhooks").json()["data"]) == 1


@pytest.mark.parametrize(
    ("body", "scenario", "refusal"),
    [
        (order(order_id=""), None, (422, "validation_failed")),
        ([], None, (422, "validation_failed")),
        (order(), "happy", (400, "invalid_scenario")),
    ],
)
def test_a_refused_request_leaves_its_key_free(
    api: Api, body: object, scenario: str | None, refusal: tuple[int, str]
) -> None:
    key = fresh_key()
    assert error_of(api.create(body, key=key, scenario=scenario)) == refusal
    response = api.create(key=key)
    assert response.status_code == 201
    assert "idempotent-replayed" not in response.headers


def test_one_key_means_another_payment_in_another_sandbox(server: RunningServer, contract: Contract) -> None:
    with Api(server.url, contract) as one, Api(server.url, contract) as other:
        first, second = one.create(key="order-1001-payment"), other.create(key="order-1001-payment")
        assert "idempotent-replayed" not in second.headers
        assert first.json()["id"] != second.json()["id"]
        assert error_of(other.get(f"/v1/payments/{first.json()['id']}")) == (404, "payment_not_found")


@pytest.mark.parametrize("round_number", range(20))
def test_concurrent_duplicates_give_one_payment_and_identical_bytes(
    shared_server: RunningServer, contract: Contract, round_number: int
) -> None:
    """64 connections send the same request at the same moment."""
    api_key, threads = f"mk_test_concurrent_{round_number}", 64
    data = raw.request(
        "POST",
        "/v1/payments",
        {
            "Authorization": f"Bearer {api_key}",
            "Content-Type": "application/json",
            "Idempotency-Key": "order-1001-payment",
        },
        json.dumps(order()).encode(),
    )
    barrier = Barrier(threads)

    def create() -> raw.RawReply:
        barrier.wait()
        [reply] = raw.exchange(shared_server.port, data, timeout=20)
        return reply

    with ThreadPoolExecutor(threads) as pool:
        replies = list(pool.map(lambda _: create(), range(threads)))
    assert {reply.status for reply in replies} == {201}
    for reply in replies:
        contract.check_raw("POST", "/v1/payments", reply)
    assert len({reply.body for reply in replies}) == 1
    assert sum("idempotent-replayed" not in reply.headers for reply in replies) == 1
    stored = asyncio.run(shared_server.store.page(sandbox_of(api_key), PaymentRecord.KIND, limit=9))
    assert len(stored) == 1
