from bookshop import Shop
from retries import RetryingClient

from paymock.testing import Sandbox
from paymock.verify import verify


def test_no_fault_loses_money(paymock: Sandbox) -> None:
    client = RetryingClient(paymock.url, paymock.api_key, timeout=0.3, tries=1)
    shop = Shop(client)
    report = verify(paymock, order=shop.order, deliveries=shop.deliveries, tick=shop.poll)
    client.http.close()
    assert (report.verdict, report.findings) == ("SAFE", []), str(report)
