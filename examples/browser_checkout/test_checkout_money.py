from paymock.testing import Sandbox
from paymock.verify import verify
from server import create_app, payment_service


def test_no_fault_loses_money(paymock: Sandbox) -> None:
    with payment_service(paymock.url, paymock.api_key, timeout=0.3) as service:
        page = create_app(service).test_client()

        def order(order_id: str) -> None:
            assert page.post("/buy", data={"order_id": order_id}).status_code == 201

        def deliveries(order_id: str) -> int:
            return int(page.get(f"/deliveries/{order_id}").text)

        def poll() -> None:
            page.post("/poll")

        report = verify(paymock, order=order, deliveries=deliveries, tick=poll)
    assert report.verdict == "SAFE", str(report)
