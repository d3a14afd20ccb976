"""What a customer sees who has nothing but the id of a payment, and what others see, who have not that."""

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import httpx
import pytest

from paymock.app.catalog_file import load_catalog
from paymock.app.checkout_service import CheckoutService
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import derive_token, sandbox_of, secret_from_seed
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from tests.support.client import ORDER, Api, error_of
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server
from tests.support.use_cases import SANDBOX, UseCases
from tests.support.virtual_time import run

FOREIGN = "pay_" + derive_token(secret_from_seed("another server"), SANDBOX, "order-1001-payment")


NO_IDS: dict[str, Callable[[str], str]] = {
    "of another server": lambda _: FOREIGN,
    "made up": lambda _: "pay_" + "a" * 40,
    "one letter changed": lambda own: own[:-1] + ("a" if own[-1] != "a" else "b"),
    "the first letter changed": lambda own: "pay_" + ("a" if own[4] != "a" else "b") + own[5:],
    "in capitals": lambda own: own.upper(),
    "one letter more": lambda own: own + "a",
    "without its prefix": lambda own: own.removeprefix("pay_"),
    "of a webhook endpoint": lambda own: own.replace("pay_", "we_"),
    "32 hex digits": lambda _: "pay_" + "0" * 32,
    "no id at all": lambda _: "x",
}


@pytest.mark.parametrize("name", NO_IDS)
@pytest.mark.parametrize("path", [".json", "/events"])
def test_only_the_very_id_leads_to_a_payment(api: Api, server: RunningServer, name: str, path: str) -> None:
    own = api.created()["id"]
    reply = httpx.get(f"{server.url}/checkout/{NO_IDS[name](own)}{path}")
    assert error_of(reply) == (404, "payment_not_found")
    assert "API key" not in reply.json()["error"]["message"]
    assert server.app.waiting == 0


def test_an_endpoint_of_the_same_token_is_no_payment(api: Api, server: RunningServer) -> None:
    endpoint = api.create({"url": "https://x.example"}, path="/v1/webhooks").json()["id"]
    reply = httpx.get(f"{server.url}/checkout/{endpoint.replace('we_', 'pay_')}.json")
    assert error_of(reply) == (404, "payment_not_found")


def test_a_payment_of_an_asset_that_the_catalog_has_lost_cannot_be_shown(tmp_path: Path) -> None:
    async def check() -> None:
        app = UseCases(MemoryStore())
        payment, _ = await app.create()
        (tmp_path / "chains.toml").write_text(
            '[[chains]]\nid = "bsc"\nname = "Mine"\nchain_id = 56\ntestnet = true\n'
            '[[chains.assets]]\nsymbol = "ONE"\nname = "One"\ndecimals = 18\n'
            '[[chains.assets]]\nsymbol = "TWO"\nname = "Two"\ndecimals = 2\n'
            'contract_address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"\n'
        )
        later = CheckoutService(load_catalog(tmp_path / "chains.toml"), app.sandboxes)
        with pytest.raises(PaymockError) as caught:
            await later.show(payment.id)
        assert caught.value.kind.code == "payment_not_found"

    run(check())


class TestJson:
    def test_whoever_has_the_id_reads_it_without_a_key(self, api: Api, server: RunningServer) -> None:
        payment = api.created()
        shown = httpx.get(f"{server.url}/checkout/{payment['id']}.json")
        assert shown.status_code == 200
        assert shown.headers["content-type"] == "application/json"
        assert shown.headers["cache-control"] == "no-store"
        instructions = payment["attempts"][0]["instructions"]
        data = shown.json()
        assert (data["payment_id"], data["order_id"], data["status"]) == (
            payment["id"],
            payment["order_id"],
            payment["status"],
        )
        assert data["invoice_address"] == instructions["invoice_address"]
        amounts = {name: data[name]["raw"] for name in ("due", "settlement", "fee")}
        assert amounts == instructions["amounts"]

    def test_it_moves_with_the_clock_of_its_sandbox(self, api: Api, server: RunningServer) -> None:
        payment_id = api.created()["id"]
        api.post("/_mock/clock/advance", json={"seconds": 13})
        assert api.get(f"/checkout/{payment_id}.json").json()["view"] == "received"

    def test_a_reset_ends_it(self, api: Api) -> None:
        payment_id = api.created()["id"]
        api.post("/_mock/reset")
        assert error_of(api.get(f"/checkout/{payment_id}.json")) == (404, "payment_not_found")
        again = api.created()["id"]
        assert api.get(f"/checkout/{again}.json").status_code == 200

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_it_tells_nothing_of_the_merchants(self, api: Api, scenario: str) -> None:
        payment = api.created(scenario, metadata={"secret_note": "for nobody"})
        path = f"/checkout/{payment['id']}.json"
        while True:
            text = api.get(path).text
            private = (
                "secret_note",
                "for nobody",
                ORDER["receive"]["address"],
                ORDER["refund_to"]["address"],
            )
            for hidden in (*private, api.api_key, sandbox_of(api.api_key), "whsec_"):
                assert hidden not in text
            move = api.post(f"/_mock/payments/{payment['id']}/advance", json={"to": "next"})
            if move.status_code == 409:
                return

    def test_its_head_has_no_body(self, api: Api) -> None:
        path = f"/checkout/{api.created()['id']}.json"
        head, get = api.head(path), api.get(path)
        assert (head.content, head.headers["content-length"]) == (b"", get.headers["content-length"])


def test_customers_need_neither_a_configured_key_nor_the_control_api() -> None:
    with running_server(Settings(port=0, api_keys=("own-key-of-a-merchant",), control=False)) as server:
        contract = Contract.of(server.url)
        with Api(server.url, contract, "own-key-of-a-merchant") as api:
            payment_id = api.created()["id"]
            shown = httpx.get(f"{server.url}/checkout/{payment_id}.json")
            assert shown.status_code == 200
            assert "own-key-of-a-merchant" not in json.dumps(shown.json())


@pytest.mark.parametrize(
    ("settings", "ancestors"),
    [
        ({}, "'none'"),
        ({"frame_ancestors": ("https://shop.example", "'self'")}, "https://shop.example 'self'"),
    ],
)
def test_only_the_origins_that_were_named_may_embed_the_page(
    settings: dict[str, Any], ancestors: str
) -> None:
    with running_server(Settings(port=0, **settings)) as server:
        with Api(server.url, Contract.of(server.url)) as api:
            known = api.created()["id"]
        for payment_id in (known, "pay_unknown"):
            policy = httpx.get(f"{server.url}/checkout/{payment_id}").headers["content-security-policy"]
            assert policy.endswith(f"; frame-ancestors {ancestors}")
