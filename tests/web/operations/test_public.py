"""What the seven operations create and keep. The client holds every reply against the OpenAPI document."""

import re

import httpx
import pytest

from paymock.rules.addresses import address_problem
from tests.support.client import ORDER, Api, error_of
from tests.support.server import RunningServer

AMOUNTS = {"due": "1010000000000000000", "settlement": "1000000000000000000", "fee": "10000000000000000"}


def test_a_payment_is_created_awaiting_payment_with_its_instructions(api: Api) -> None:
    response = api.create()
    payment = response.json()
    assert response.status_code == 201
    assert response.headers["location"] == f"/v1/payments/{payment['id']}"
    assert response.headers["link"] == f'</checkout/{payment["id"]}>; rel="payment"'
    assert "idempotent-replayed" not in response.headers
    attempt = payment["attempts"][0]
    address = attempt["instructions"]["invoice_address"]
    assert re.fullmatch("pay_[a-z2-7]{40}", payment["id"])
    assert re.fullmatch("att_[0-9a-f]{32}", attempt["id"])
    assert address_problem(address) is None
    assert payment == {
        "id": payment["id"],
        "status": "awaiting_payment",
        **ORDER,
        "created_at": "2030-01-31T12:00:00.000Z",
        "updated_at": "2030-01-31T12:00:00.000Z",
        "attempts": [
            {
                "id": attempt["id"],
                "status": "awaiting_payment",
                "instructions": {
                    "type": "evm_invoice_address",
                    "chain": "bsc",
                    "asset": "USDT",
                    "invoice_address": address,
                    "amounts": AMOUNTS,
                },
            }
        ],
    }


def test_what_is_optional_has_defaults(api: Api) -> None:
    payment = api.created(refund_to=..., expires_at=..., metadata=...)
    assert payment["refund_to"] is None
    assert payment["expires_at"] == "2030-01-31T12:30:00.000Z"
    assert payment["metadata"] == {}


def test_metadata_comes_back_as_sent(api: Api) -> None:
    for metadata in (
        {"a": {"b": [1, 2.5, True, None, "💸"]}},
        {"z": 1, "a": 2},
        {"k": "<script>alert(1)</script>", "__proto__": {"admin": True}},
        {"big": 2**53 - 1, "small": -(2**53) + 1, "float": 1e300, "zero": -0.0},
    ):
        payment = api.created(metadata=metadata)
        assert payment["metadata"] == metadata
        assert list(payment["metadata"]) == list(metadata)
        assert api.payment(payment["id"])["metadata"] == metadata


def test_a_deposit_says_what_arrived(api: Api, server: RunningServer) -> None:
    payment = api.created()
    server.clock.advance(9)
    [deposit] = api.payment(payment["id"])["attempts"][0]["deposits"]
    assert re.fullmatch("dep_[0-9a-f]{32}", deposit.pop("id"))
    assert re.fullmatch("0x[0-9a-f]{64}", deposit.pop("tx_hash"))
    assert address_problem(deposit.pop("from_address")) is None
    assert deposit == {
        "status": "confirming",
        "confirmations": 8,
        "confirmations_required": 16,
        "chain": "bsc",
        "asset": "USDT",
        "amount": "1010000000000000000",
        "observed_at": "2030-01-31T12:00:05.000Z",
    }


def test_a_webhook_endpoint_is_created_with_its_secret_and_listed_without(api: Api) -> None:
    body = {
        "url": "https://merchant.example/hooks",
        "events": ["payment.completed"],
        "description": "staging",
    }
    response = api.create(body, path="/v1/webhooks")
    endpoint = response.json()
    assert response.status_code == 201
    assert re.fullmatch("we_[a-z2-7]{40}", endpoint["id"])
    assert re.fullmatch("whsec_[0-9a-f]{64}", endpoint.pop("secret"))
    assert endpoint == {
        "id": endpoint["id"],
        **body,
        "status": "enabled",
        "created_at": "2030-01-31T12:00:00.000Z",
    }
    assert api.get("/v1/webhooks").json() == {"data": [endpoint]}


def test_a_webhook_endpoint_has_defaults(api: Api) -> None:
    response = api.create({"url": "http://localhost:9"}, path="/v1/webhooks")
    assert (response.json()["events"], response.json()["description"]) == (["*"], None)


def test_webhook_endpoints_are_listed_in_the_order_of_their_creation(api: Api) -> None:
    urls = [f"https://merchant.example/{number}" for number in range(3)]
    for url in urls:
        api.create({"url": url}, path="/v1/webhooks")
    assert [endpoint["url"] for endpoint in api.get("/v1/webhooks").json()["data"]] == urls


def test_a_sandbox_has_at_most_a_hundred_webhook_endpoints(api: Api) -> None:
    def create(number: int) -> httpx.Response:
        body = {"url": f"https://merchant.example/{number}"}
        return api.create(body, key=f"endpoint-{number}", path="/v1/webhooks")

    assert {create(number).status_code for number in range(100)} == {201}
    assert error_of(create(100)) == (503, "capacity_exceeded")
    assert create(7).status_code == 201  # a replay
    assert len(api.get("/v1/webhooks").json()["data"]) == 100


def test_an_endpoint_id_is_no_payment_id(api: Api) -> None:
    endpoint = api.create({"url": "https://x.example"}, path="/v1/webhooks").json()
    disguised = endpoint["id"].replace("we_", "pay_")
    assert error_of(api.get(f"/v1/payments/{disguised}")) == (404, "payment_not_found")


def test_health_needs_no_key(api: Api) -> None:
    for path in ("/livez", "/readyz"):
        response = api.get(path, headers={"Authorization": ""})
        assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/chains", 200),
        ("/v1/webhooks", 200),
        ("/livez", 200),
        ("/openapi.yaml", 200),
        ("/swagger/", 200),
        ("/v1/payments/pay_unknown", 404),
        ("/v1/chains/", 404),
    ],
)
def test_head_answers_like_get_without_the_body(api: Api, path: str, status: int) -> None:
    got, headed = api.get(path), api.head(path)
    assert (headed.status_code, headed.content) == (status, b"")
    assert got.status_code == status
    assert headed.headers["content-length"] == got.headers["content-length"]


def test_head_is_refused_like_get_without_a_key_and_where_nothing_can_be_read(api: Api) -> None:
    assert api.head("/v1/chains", headers={"Authorization": ""}).status_code == 401
    assert api.head("/v1/payments").status_code == 405


def test_every_invoice_address_is_its_own(api: Api) -> None:
    addresses = {api.created()["attempts"][0]["instructions"]["invoice_address"] for _ in range(20)}
    assert len(addresses) == 20
