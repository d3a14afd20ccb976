from decimal import Decimal

from orders import Shop

from payments import Payments
from paymock.testing import Sandbox
from paymock.verify import verify


def test_no_fault_loses_money(paymock: Sandbox) -> None:
    payments = Payments(paymock.url, paymock.api_key, timeout=0.3)
    shop = Shop(payments, Decimal(25))
    report = verify(paymock, order=shop.order, deliveries=shop.deliveries, tick=shop.poll)
    payments.close()
    assert report.verdict == "SAFE", str(report)
