import pytest

from tests.support.client import Api, error_of, order
from tests.support.contract import Json

JSON = {"Content-Type": "application/json"}
CONFLICT = (409, "idempotency_key_reused_with_different_payload")


def test_a_replay_without_a_scenario_header_has_no_warning(api: Api) -> None:
    api.post("/_mock/next", json={"scenario": "late_payment"})
    for _ in range(2):
        assert "x-mock-warning" not in api.create(key="order-1001-payment").headers
    replay = api.create(key="order-1001-payment", scenario="happy_path")
    assert replay.headers["x-mock-warning"] == "replayed payment follows late_payment, not happy_path"


@pytest.mark.parametrize(
    ("path", "body", "always"),
    [
        ("/v1/payments", order(), ""),
        (
            "/v1/webhooks",
            {"url": "https://shop.example"},
            "nothing is delivered by this mock; poll the payment",
        ),
    ],
)
def test_a_key_that_the_service_would_have_forgotten_is_told(
    api: Api, path: str, body: Json, always: str
) -> None:
    api.speed(0)
    for seconds, is_too_old in ((0, False), (24 * 3600, False), (0.001, True)):
        if seconds:
            api.advance(seconds)
        reply = api.create(body, key="order-1001-payment", path=path)
        warning = reply.headers.get("x-mock-warning", "")
        assert (reply.status_code, warning.startswith(always)) == (201, True)
        assert ("24 hours" in warning) == is_too_old
        assert is_too_old or warning == always


def test_another_body_under_the_same_key_is_a_conflict(api: Api) -> None:
    first = api.create(key="order-1001-payment")
    for other in (
        order(receive__amount="1000000000000000001"),
        order(receive__address="0x5aaeb6053f3e94c9b9a09f33669435e7ef1beaed"),
        order(metadata={"customer_id": "c_2"}),
        order(metadata={"customer_id": ["c_1"]}),
        order(metadata=None),
        order(refund_to=...),
        order(memo="unknown"),
        order(order_id=5),
        order(expires_at="2001-01-01T00:00:00Z"),
        {},
        [order()],
    ):
        assert error_of(api.create(other, key="order-1001-payment")) == CONFLICT
    malformed = api.post(
        "/v1/payments", content=b"{", headers={**JSON, "Idempotency-Key": "order-1001-payment"}
    )
    assert error_of(malformed) == (400, "invalid_json")
    assert api.create(key="order-1001-payment").content == first.content
