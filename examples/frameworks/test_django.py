import pytest
from django.core.management import call_command
from django_shop.models import Order

pytestmark = pytest.mark.django_db


@pytest.fixture(autouse=True)
def payment_service(paymock, settings):
    settings.PAYMENTS_URL = paymock.url
    settings.PAYMENTS_API_KEY = paymock.api_key


def test_a_failed_settlement_is_no_payment(client, paymock):
    paymock.next("settlement_failed")
    client.post("/orders/order-1001")
    paymock.advance(45)
    call_command("poll_payments")
    assert not Order.objects.get().is_delivered


def test_goods_go_out_once_the_payment_is_completed(client, paymock):
    client.post("/orders/order-1001")
    paymock.advance(45)
    call_command("poll_payments")
    assert Order.objects.get().is_delivered
