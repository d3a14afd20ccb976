from collections.abc import Iterator
from pathlib import Path

import pytest
from flask.testing import FlaskClient
from shop import create_app, payment_service

from paymock.testing import Sandbox
from paymock.verify import verify


@pytest.fixture
def customer(paymock: Sandbox, tmp_path: Path) -> Iterator[FlaskClient]:
    with payment_service(paymock.url, paymock.api_key, timeout=0.3) as service:
        yield create_app(service, tmp_path / "shop.db").test_client()


def test_no_fault_loses_money(paymock: Sandbox, customer: FlaskClient) -> None:
    def order(order_id: str) -> None:
        assert customer.post(f"/orders/{order_id}").status_code == 303

    def deliveries(order_id: str) -> int:
        return int(customer.get(f"/deliveries/{order_id}").text)

    def poll() -> None:
        customer.post("/poll")

    report = verify(paymock, order=order, deliveries=deliveries, tick=poll)
    assert report.verdict == "SAFE", str(report)
