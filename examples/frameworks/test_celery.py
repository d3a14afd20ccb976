import pytest
from celery.contrib.testing.worker import start_worker
from celery.exceptions import Retry
from celery_shop import app, create_payment, delivered, follow, order


@pytest.fixture(autouse=True)
def celery(paymock):
    app.conf.update(payments_url=paymock.url, payments_api_key=paymock.api_key)
    app.conf.update(broker_url="memory://", broker_transport_options={"polling_interval": 0.01})
    follow.default_retry_delay = 0.01
    delivered.clear()


def test_a_failed_settlement_is_no_payment(paymock):
    paymock.next("settlement_failed")
    payment_id = create_payment("order-1001")
    with pytest.raises(Retry):
        follow(payment_id, "order-1001")
    paymock.advance(45)
    follow(payment_id, "order-1001")
    assert delivered == []


def test_a_worker_delivers_once_the_payment_is_completed(paymock):
    with start_worker(app, perform_ping_check=False, shutdown_timeout=60):
        order("order-1001")
        payment = paymock.wait_for("order-1001")
        paymock.advance_payment(payment["id"], to="completed", until_observed=True)
    assert delivered == ["order-1001"]
