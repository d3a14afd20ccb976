from bookshop import Shop
from retries import RetryingClient

from paymock.testing import Sandbox
from paymock.verify import verify


def no_pause(_: float) -> None:
    """Saves time; the report then advises to heed `Retry-After`, which test_retries.py shows that it does."""


def test_no_fault_loses_money(paymock: Sandbox) -> None:
    client = RetryingClient(paymock.url, paymock.api_key, timeout=0.3, sleep=no_pause)
    shop = Shop(client)
    report = verify(paymock, order=shop.order, deliveries=shop.deliveries, tick=shop.poll)
    client.http.close()
    assert report.verdict == "SAFE", str(report)
