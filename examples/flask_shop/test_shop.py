from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, suppress
from pathlib import Path

import httpx
import pytest
import yaml
from flask.testing import FlaskClient
from shop import STATES, create_app, payment_service

from paymock.testing import Sandbox

Start = Callable[..., FlaskClient]


class Killed(BaseException):
    """Nothing handles it: what comes after the line that raises it does not happen, as after kill -9."""


@pytest.fixture
def start(paymock: Sandbox, tmp_path: Path) -> Iterator[Start]:
    """Starts the shop, once more at each call, on the same database; and a customer of it."""
    with ExitStack() as stack:

        def start(after_reply: Callable[[httpx.Response], None] = lambda reply: None) -> FlaskClient:
            service = stack.enter_context(payment_service(paymock.url, paymock.api_key))
            service.event_hooks["response"].append(after_reply)
            return create_app(service, tmp_path / "shop.db").test_client()

        yield start


@pytest.fixture
def customer(start: Start) -> FlaskClient:
    return start()


def states(customer: FlaskClient) -> list[str]:
    customer.post("/poll")
    return list(dict(customer.get("/orders").get_json()).values())


def test_a_customer_is_sent_to_a_page_that_asks_for_the_price_and_the_fee(customer: FlaskClient) -> None:
    reply = customer.post("/orders")
    assert reply.status_code == 303
    assert "25.25" in httpx.get(reply.location).text


def test_an_order_is_paid_when_the_money_is_there_for_good_and_not_before(
    customer: FlaskClient, paymock: Sandbox
) -> None:
    customer.post("/orders")
    [payment] = paymock.payments()
    seen = [states(customer)]
    for status in ("payment_detected", "payment_finalized", "completed"):
        paymock.advance_payment(payment["id"], to=status)
        seen.append(states(customer))
    assert seen == [["open"], ["open"], ["paid"], ["paid"]]


@pytest.mark.parametrize(
    ("scenario", "state"),
    [
        ("no_payment_expired", "canceled"),
        ("underpaid_expired", "ask us"),
        ("overpaid_review", "ask us"),
        ("asset_mismatch", "ask us"),
        ("late_payment", "ask us"),
        ("settlement_failed", "ask us"),
        ("manual_review", "ask us"),
    ],
)
def test_what_goes_wrong_with_a_payment_is_seen_in_the_order(
    customer: FlaskClient, paymock: Sandbox, scenario: str, state: str
) -> None:
    paymock.next(scenario)  # for the next payment, since the shop sends no X-Mock-Scenario
    customer.post("/orders")
    paymock.advance(60)
    assert states(customer) == [state]


def test_the_shop_knows_every_status_that_there_is(paymock: Sandbox) -> None:
    document = yaml.safe_load(httpx.get(f"{paymock.url}/openapi.yaml").text)
    assert list(STATES) == document["components"]["schemas"]["PaymentStatus"]["enum"]


@pytest.mark.parametrize("fault", ["status=500", "drop", "truncate=20"])
def test_a_customer_who_is_told_of_a_failure_orders_again_and_has_one_payment(
    customer: FlaskClient, paymock: Sandbox, fault: str
) -> None:
    paymock.fault(fault, operation="createPayment")
    assert customer.post("/orders/order-1001").status_code == 502
    assert customer.post("/orders/order-1001").status_code == 303
    assert states(customer) == ["open"]
    assert len(paymock.payments()) == 1


def test_goods_are_delivered_once(customer: FlaskClient, paymock: Sandbox) -> None:
    customer.post("/orders/order-1001")
    deliveries = []
    for status in ("payment_finalized", "completed"):
        paymock.advance_payment(paymock.payments()[0]["id"], to=status)
        for _ in range(2):
            customer.post("/poll")
            deliveries.append(customer.get("/deliveries/order-1001").text)
    assert deliveries == ["0", "0", "1", "1"]


@pytest.mark.parametrize("method", ["POST", "GET"])
def test_a_shop_that_is_killed_after_a_reply_goes_on_when_it_is_started_again(
    start: Start, paymock: Sandbox, method: str
) -> None:
    def kill(reply: httpx.Response) -> None:
        if reply.request.method == method:
            raise Killed

    killed = start(kill)
    with suppress(Killed):
        killed.post("/orders/order-1001")
    [payment] = paymock.payments()
    paymock.advance_payment(payment["id"], to="completed")
    with suppress(Killed):
        killed.post("/poll")
    assert killed.get("/deliveries/order-1001").text == "0"

    restarted = start()
    assert states(restarted) == ["paid"]
    assert restarted.get("/deliveries/order-1001").text == "1"
    assert len(paymock.payments()) == 1


def test_several_shops_on_one_database_make_one_payment_and_deliver_once(
    start: Start, paymock: Sandbox
) -> None:
    shops = [start() for _ in range(3)]
    with ThreadPoolExecutor(len(shops)) as at_once:
        replies = [*at_once.map(lambda shop: shop.post("/orders/order-1001").status_code, shops)]
        assert replies == [303] * 3
        [payment] = paymock.payments()
        paymock.advance_payment(payment["id"], to="completed")
        assert [*at_once.map(states, shops)] == [["paid"]] * 3
    assert shops[0].get("/deliveries/order-1001").text == "1"
