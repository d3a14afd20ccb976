from collections.abc import Iterator

import pytest
from flask.testing import FlaskClient
from unsafe_shop import create_app, payment_service

from paymock.testing import Sandbox


@pytest.fixture
def customer(paymock: Sandbox) -> Iterator[FlaskClient]:
    with payment_service(paymock.url, paymock.api_key) as service:
        yield create_app(service).test_client()


def test_a_customer_pays_and_gets_the_goods_once(customer: FlaskClient, paymock: Sandbox) -> None:
    assert customer.post("/orders/order-1001").status_code == 303
    deliveries = []
    for seconds in (1, 30, 30):
        paymock.advance(seconds)
        customer.post("/poll")
        deliveries.append(customer.get("/deliveries/order-1001").text)
    assert deliveries == ["0", "1", "1"]


def test_nothing_is_delivered_to_a_customer_who_does_not_pay(customer: FlaskClient, paymock: Sandbox) -> None:
    paymock.next("no_payment_expired")
    customer.post("/orders/order-1001")
    paymock.advance(60)
    customer.post("/poll")
    assert customer.get("/deliveries/order-1001").text == "0"
