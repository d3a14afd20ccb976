from collections.abc import Iterator

import httpx
import pytest
from retries import LONGEST_PAUSE, TRIES, GaveUp, RetryingClient

from paymock.testing import Sandbox

ORDER = {
    "order_id": "order-1001",
    "receive": {
        "chain": "bsc",
        "asset": "USDT",
        "amount": "1000000000000000000",
        "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    },
    "settlement": {"mode": "same_chain_merchant_payout"},
    "pay_with": [{"chain": "bsc", "asset": "USDT"}],
}


@pytest.fixture
def pauses() -> list[float]:
    return []


@pytest.fixture
def client(paymock: Sandbox, pauses: list[float]) -> Iterator[RetryingClient]:
    def sleep(seconds: float) -> None:
        pauses.append(seconds)
        paymock.advance(max(seconds, 0.001))  # so that time has passed for paymock, too

    client = RetryingClient(paymock.url, paymock.api_key, timeout=0.5, sleep=sleep)
    yield client
    client.http.close()


def tries(paymock: Sandbox) -> list[tuple[int, str | None]]:
    """The status of every try, 0 for a lost reply, and what became of the idempotency key; oldest first."""
    return [(request["status"], request["idempotency"]) for request in reversed(paymock.requests())]


def test_a_lost_reply_makes_no_second_payment(client: RetryingClient, paymock: Sandbox) -> None:
    client.http.headers["X-Mock-Fault"] = "drop; times=2"
    payment = client.create(ORDER)
    assert [payment["id"]] == [created["id"] for created in paymock.payments()]
    assert tries(paymock) == [(0, "new"), (0, "replayed"), (201, "replayed")]


def test_a_service_that_is_down_for_a_moment_is_not_noticed(client: RetryingClient, paymock: Sandbox) -> None:
    client.http.headers["X-Mock-Fault"] = "status=503; times=2"
    client.create(ORDER)
    assert tries(paymock) == [(503, None), (503, None), (201, "new")]


def test_a_reply_that_comes_too_late_makes_no_second_payment(
    client: RetryingClient, paymock: Sandbox
) -> None:
    client.http.headers["X-Mock-Fault"] = "delay=1000; times=1"
    client.create(ORDER)
    assert len(paymock.payments()) == 1


@pytest.mark.parametrize("fault", ["drop; times=1", "status=500; times=2", "status=429; times=1"])
def test_reading_is_tried_again_too(client: RetryingClient, fault: str) -> None:
    payment = client.create(ORDER)
    client.http.headers["X-Mock-Fault"] = fault
    assert client.payment(payment["id"]) == payment


@pytest.mark.parametrize("fault", ["drop", "status=503"])
def test_it_gives_up_in_the_end_and_the_same_order_can_be_sent_later(
    client: RetryingClient, paymock: Sandbox, fault: str
) -> None:
    client.http.headers["X-Mock-Fault"] = fault
    with pytest.raises(GaveUp, match=f"{TRIES} times"):
        client.create(ORDER)
    assert len(tries(paymock)) == TRIES

    paymock.advance(60)
    after_a_restart = RetryingClient(paymock.url, paymock.api_key)
    payment = after_a_restart.create(ORDER)
    after_a_restart.http.close()
    assert [payment["id"]] == [created["id"] for created in paymock.payments()]


def test_a_refused_order_is_not_sent_again(client: RetryingClient, paymock: Sandbox) -> None:
    with pytest.raises(httpx.HTTPStatusError, match="422"):
        client.create({**ORDER, "pay_with": []})
    assert len(tries(paymock)) == 1


def test_it_waits_as_long_as_the_service_asks_and_not_forever(
    client: RetryingClient, pauses: list[float]
) -> None:
    client.http.headers["X-Mock-Fault"] = "status=503"
    with pytest.raises(GaveUp):
        client.create(ORDER)
    assert len(pauses) == TRIES - 1
    assert all(1 <= pause <= LONGEST_PAUSE for pause in pauses)  # 503 comes with `Retry-After: 1`
