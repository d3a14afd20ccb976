"""The checkout of a payment, for whoever has its id."""

from collections.abc import Callable
from pathlib import Path

import pytest

from paymock.app.checkout import CheckoutService
from paymock.payments.files import load_catalog
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import derive_token, secret_from_seed
from paymock.sandbox.snapshot import KeyedRequest
from paymock.schemas.json import fingerprint
from paymock.stores.memory import MemoryStore
from tests.support.courses import OTHER_CATALOG
from tests.support.use_cases import SANDBOX, UseCases

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


async def refused(checkouts: CheckoutService, payment_id: str) -> None:
    with pytest.raises(PaymockError) as caught:
        await checkouts.show(payment_id)
    assert caught.value.kind.code == "payment_not_found"
    assert "API key" not in caught.value.message


@pytest.mark.parametrize("name", NO_IDS)
async def test_only_the_very_id_leads_to_a_payment(name: str) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    await refused(app.checkouts, NO_IDS[name](payment.id))


async def test_an_endpoint_of_the_same_token_is_no_payment() -> None:
    app, body = UseCases(MemoryStore()), {"url": "https://x.example"}
    request = KeyedRequest(SANDBOX, "endpoint-1001", fingerprint("POST", "/v1/webhooks", body), body)
    endpoint, *_ = await app.service.create_endpoint(request)
    await refused(app.checkouts, endpoint.id.replace("we_", "pay_"))


async def test_a_payment_of_an_asset_that_the_catalog_has_lost_cannot_be_shown(tmp_path: Path) -> None:
    app = UseCases(MemoryStore())
    payment, _ = await app.create()
    (tmp_path / "chains.toml").write_text(OTHER_CATALOG)
    await refused(CheckoutService(load_catalog(tmp_path / "chains.toml"), app.sandboxes), payment.id)
