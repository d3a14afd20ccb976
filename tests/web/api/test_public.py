"""The seven operations, field by field. The client holds every reply against the OpenAPI document, too."""

import re
from typing import Any

import pytest

from paymock.rules.addresses import address_problem
from tests.support.client import ORDER, Api, error_of, fresh_key, order
from tests.support.server import RunningServer

AMOUNTS = {"due": "1010000000000000000", "settlement": "1000000000000000000", "fee": "10000000000000000"}


def test_chains_are_listed(api: Api) -> None:
    response = api.get("/v1/chains")
    assert response.status_code == 200
    assert response.json()["data"][0] == {
        "id": "bsc",
        "name": "BNB Smart Chain",
        "type": "evm",
        "chain_id": 56,
        "caip2": "eip155:56",
        "native_asset": "BNB",
        "confirmations_required": 16,
        "testnet": False,
    }
    assert [chain["id"] for chain in response.json()["data"]] == [
        "bsc", "bsc_testnet", "ethereum", "polygon", "base",
    ]  # fmt: skip


def test_assets_of_a_chain_are_listed_with_their_decimals(api: Api) -> None:
    response = api.get("/v1/chains/ethereum/assets")
    assert response.status_code == 200
    assert {asset["id"]: asset["decimals"] for asset in response.json()["data"]} == {
        "ETH": 18,
        "USDT": 6,
        "USDC": 6,
    }
    assert response.json()["data"][0] == {
        "id": "ETH",
        "chain": "ethereum",
        "symbol": "ETH",
        "name": "Ether",
        "decimals": 18,
        "contract_address": None,
        "native": True,
    }


@pytest.mark.parametrize("chain", ["narnia", "BSC", "%20bsc", "%ff", "bsc%2fassets"])
def test_assets_of_an_unknown_chain_are_not_found(api: Api, chain: str) -> None:
    assert error_of(api.get(f"/v1/chains/{chain}/assets")) == (404, "chain_not_found")


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


@pytest.mark.parametrize(
    "metadata",
    [
        {"a": {"b": [1, 2.5, True, None, "💸"]}},
        {"z": 1, "a": 2},
        {"k": "<script>alert(1)</script>", "__proto__": {"admin": True}},
        {"big": 2**53 - 1, "small": -(2**53) + 1, "float": 1e300, "zero": -0.0},
    ],
)
def test_metadata_comes_back_as_sent(api: Api, metadata: dict[str, Any]) -> None:
    payment = api.created(metadata=metadata)
    assert payment["metadata"] == metadata
    assert list(payment["metadata"]) == list(metadata)
    assert api.payment(payment["id"])["metadata"] == metadata


@pytest.mark.parametrize("expires_at", ["2030-01-31T12:00:00.001Z", "2099-01-01T00:00:00.123456789+05:30"])
def test_the_expiry_is_echoed_as_sent(api: Api, expires_at: str) -> None:
    assert api.created(expires_at=expires_at)["expires_at"] == expires_at


@pytest.mark.parametrize(
    ("scenario", "second"), [("happy_path", 4.999), ("no_payment_expired", 60), ("late_payment", 34)]
)
def test_funding_and_deposits_are_absent_until_a_transfer_is_observed(
    api: Api, server: RunningServer, scenario: str, second: float
) -> None:
    payment = api.created(scenario)
    server.clock.advance(second)
    assert set(api.payment(payment["id"])["attempts"][0]) == {"id", "status", "instructions"}


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


def test_a_mismatched_deposit_names_the_asset_that_arrived(api: Api, server: RunningServer) -> None:
    payment = api.created("asset_mismatch")
    server.clock.advance(7)
    [deposit] = api.payment(payment["id"])["attempts"][0]["deposits"]
    assert (deposit["status"], deposit["asset"], deposit["confirmations"]) == ("rejected", "USDC", 0)


@pytest.mark.parametrize(
    ("second", "updated"), [(4, "00"), (5, "05"), (8.9, "07"), (13, "13"), (29, "25"), (60, "45")]
)
def test_updated_at_is_the_time_of_the_last_change(
    api: Api, server: RunningServer, second: float, updated: str
) -> None:
    payment = api.created()
    server.clock.advance(second)
    assert api.payment(payment["id"])["updated_at"] == f"2030-01-31T12:00:{updated}.000Z"


def test_reading_changes_nothing(api: Api, server: RunningServer) -> None:
    payment = api.created()
    for second in (5, 8, 12, 20):
        server.clock.advance(second)
        assert (
            api.get(f"/v1/payments/{payment['id']}").content
            == api.get(f"/v1/payments/{payment['id']}").content
        )


def test_attempts_are_those_of_the_payment(api: Api, server: RunningServer) -> None:
    payment = api.created()
    for second in (0, 9, 36):
        server.clock.advance(second)
        response = api.get(f"/v1/payments/{payment['id']}/attempts")
        assert response.json() == {"data": api.payment(payment["id"])["attempts"]}


@pytest.mark.parametrize("suffix", ["", "/attempts"])
@pytest.mark.parametrize("payment_id", ["pay_", "pay_unknown", "att_x", "%00", "%ff", "%2e%2e", "x" * 5000])
def test_an_unknown_payment_is_not_found(api: Api, payment_id: str, suffix: str) -> None:
    assert error_of(api.get(f"/v1/payments/{payment_id}{suffix}")) == (404, "payment_not_found")


def test_a_webhook_endpoint_is_created_with_its_secret_and_listed_without(api: Api) -> None:
    body = {
        "url": "https://merchant.example/hooks",
        "events": ["payment.completed"],
        "description": "staging",
    }
    response = api.post("/v1/webhooks", json=body, headers={"Idempotency-Key": fresh_key()})
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
    response = api.post(
        "/v1/webhooks", json={"url": "http://localhost:9"}, headers={"Idempotency-Key": fresh_key()}
    )
    assert (response.json()["events"], response.json()["description"]) == (["*"], None)


def test_webhook_endpoints_are_listed_in_the_order_of_their_creation(api: Api) -> None:
    urls = [f"https://merchant.example/{number}" for number in range(3)]
    for url in urls:
        api.post("/v1/webhooks", json={"url": url}, headers={"Idempotency-Key": fresh_key()})
    assert [endpoint["url"] for endpoint in api.get("/v1/webhooks").json()["data"]] == urls


def test_a_sandbox_has_at_most_a_hundred_webhook_endpoints(api: Api) -> None:
    for number in range(100):
        body = {"url": f"https://merchant.example/{number}"}
        assert (
            api.post("/v1/webhooks", json=body, headers={"Idempotency-Key": f"endpoint-{number}"}).status_code
            == 201
        )
    refused = api.post(
        "/v1/webhooks", json={"url": "https://x.example"}, headers={"Idempotency-Key": fresh_key()}
    )
    assert error_of(refused) == (503, "capacity_exceeded")
    replay = api.post(
        "/v1/webhooks", json={"url": "https://merchant.example/7"}, headers={"Idempotency-Key": "endpoint-7"}
    )
    assert replay.status_code == 201
    assert len(api.get("/v1/webhooks").json()["data"]) == 100


def test_an_endpoint_id_is_no_payment_id(api: Api) -> None:
    endpoint = api.post(
        "/v1/webhooks", json={"url": "https://x.example"}, headers={"Idempotency-Key": fresh_key()}
    ).json()
    disguised = endpoint["id"].replace("we_", "pay_")
    assert error_of(api.get(f"/v1/payments/{disguised}")) == (404, "payment_not_found")


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_health_needs_no_key(api: Api, path: str) -> None:
    response = api.get(path, headers={"Authorization": ""})
    assert (response.status_code, response.json()) == (200, {"status": "ok"})


@pytest.mark.parametrize("path", ["/v1/chains", "/livez", "/openapi.yaml", "/swagger/"])
def test_head_answers_like_get_without_the_body(api: Api, path: str) -> None:
    got, headed = api.get(path), api.head(path)
    assert headed.status_code == got.status_code == 200
    assert headed.content == b""
    assert headed.headers["content-length"] == got.headers["content-length"]


def test_amounts_follow_the_configured_fee(api: Api) -> None:
    assert api.created(receive__amount="1")["attempts"][0]["instructions"]["amounts"] == {
        "due": "2",
        "settlement": "1",
        "fee": "1",
    }


def test_every_invoice_address_is_its_own(api: Api) -> None:
    addresses = {api.created()["attempts"][0]["instructions"]["invoice_address"] for _ in range(20)}
    assert len(addresses) == 20


def test_order_ids_need_not_be_unique(api: Api) -> None:
    assert api.create(order()).json()["id"] != api.create(order()).json()["id"]
