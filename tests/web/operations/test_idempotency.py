import asyncio
import json
from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from paymock.payments.records import PaymentRecord
from paymock.rules.identifiers import sandbox_of
from tests.support import raw
from tests.support.client import Api, error_of, fresh_key, order
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer

JSON = {"Content-Type": "application/json"}
CONFLICT = (409, "idempotency_key_reused_with_different_payload")


def test_a_replay_without_a_scenario_header_has_no_warning(api: Api) -> None:
    api.post("/_mock/next", json={"scenario": "late_payment"})
    for _ in range(2):
        assert "x-mock-warning" not in api.create(key="order-1001-payment").headers
    replay = api.create(key="order-1001-payment", scenario="happy_path")
    assert replay.headers["x-mock-warning"] == "replayed payment follows late_payment, not happy_path"


@pytest.mark.parametrize(
    ("path", "body", "always"),
    [
        ("/v1/payments", order(), ""),
        (
            "/v1/webhooks",
            {"url": "https://shop.example"},
            "nothing is delivered by this mock; poll the payment",
        ),
    ],
)
def test_a_key_that_the_service_would_have_forgotten_is_told(
    api: Api, path: str, body: Json, always: str
) -> None:
    api.speed(0)
    for seconds, is_too_old in ((0, False), (24 * 3600, False), (0.001, True)):
        if seconds:
            api.advance(seconds)
        reply = api.create(body, key="order-1001-payment", path=path)
        warning = reply.headers.get("x-mock-warning", "")
        assert (reply.status_code, warning.startswith(always)) == (201, True)
        assert ("24 hours" in warning) == is_too_old
        assert is_too_old or warning == always


def test_another_body_under_the_same_key_is_a_conflict(api: Api) -> None:
    first = api.create(key="order-1001-payment")
    for other in (
        order(receive__amount="1000000000000000001"),
        order(receive__address="0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"),
        order(metadata={"customer_id": "c_2"}),
        order(metadata=None),
        order(refund_to=...),
        order(memo="unknown"),
        order(order_id=5),
        order(expires_at="2001-01-01T00:00:00Z"),
        {},
        [order()],
    ):
        assert error_of(api.create(other, key="order-1001-payment")) == CONFLICT
    malformed = api.post(
        "/v1/payments", content=b"{", headers={**JSON, "Idempotency-Key": "order-1001-payment"}
    )
    assert error_of(malformed) == (400, "invalid_json")
    assert api.create(key="order-1001-payment").content == first.content


@pytest.mark.parametrize("threads", [16, pytest.param(64, marks=pytest.mark.ci)])
def test_concurrent_duplicates_get_identical_bytes(
    server: RunningServer, contract: Contract, threads: int
) -> None:
    """So many connections send the same request at the same moment, ten times."""

    def create(data: bytes, barrier: Barrier) -> raw.RawReply:
        barrier.wait()
        [reply] = raw.exchange(server.port, data, timeout=20)
        return reply

    headers = {**JSON, "Idempotency-Key": "order-1001-payment"}
    with ThreadPoolExecutor(threads) as pool:
        for _ in range(10):
            api_key, barrier = f"mk_test_{fresh_key()}", Barrier(threads)
            authorized = {"Authorization": f"Bearer {api_key}", **headers}
            data = raw.request("POST", "/v1/payments", authorized, json.dumps(order()).encode())

            replies = [*pool.map(create, [data] * threads, [barrier] * threads)]
            for reply in replies:
                assert reply.status == 201
                contract.check_raw("POST", "/v1/payments", reply)
            assert len({reply.body for reply in replies}) == 1
            assert sum("idempotent-replayed" not in reply.headers for reply in replies) == 1
            stored = asyncio.run(server.store.page(sandbox_of(api_key), PaymentRecord.KIND, limit=9))
            assert len(stored) == 1
