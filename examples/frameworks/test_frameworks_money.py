import pytest
from celery.contrib.testing.worker import start_worker
from celery_shop import app, create_payment, delivered, follow, order
from django.core.management import call_command
from django_shop.models import Order
from fastapi.testclient import TestClient
from fastapi_shop import create_app

from paymock.verify import verify


def test_no_fault_loses_money_of_the_shop_with_fastapi(paymock):
    app = create_app(paymock.url, paymock.api_key, poll_every=0.02, timeout=0.3)
    with TestClient(app) as client:

        def order(order_id):
            assert client.post(f"/orders/{order_id}").status_code == 201

        report = verify(
            paymock, order=order, deliveries=lambda one: client.get("/deliveries").json().count(one)
        )
    assert report.verdict == "SAFE", str(report)


@pytest.mark.django_db
def test_no_fault_loses_money_of_the_shop_with_django(client, paymock, settings):
    settings.PAYMENTS_URL, settings.PAYMENTS_API_KEY = paymock.url, paymock.api_key
    settings.PAYMENTS_TIMEOUT = 0.3

    def order(order_id):
        assert client.post(f"/orders/{order_id}").status_code == 201

    def deliveries(order_id):
        return Order.objects.filter(id=order_id, is_delivered=True).count()

    report = verify(paymock, order=order, deliveries=deliveries, tick=lambda: call_command("poll_payments"))
    assert report.verdict == "SAFE", str(report)


def test_no_fault_loses_money_of_the_shop_with_celery(paymock):
    app.conf.update(payments_url=paymock.url, payments_api_key=paymock.api_key, payments_timeout=0.3)
    app.conf.update(broker_url="memory://", broker_transport_options={"polling_interval": 0.01})
    create_payment.default_retry_delay = follow.default_retry_delay = 0.5
    with start_worker(app, perform_ping_check=False, shutdown_timeout=60, pool="threads", concurrency=8):
        report = verify(paymock, order=order, deliveries=delivered.count)
    assert report.verdict == "SAFE", str(report)
