"""The examples of the OpenAPI document: requests, and what the service replies to them at fixed moments.

Everything is made by the code that serves requests, with a fixed secret and clock, so an example cannot be
wrong. A test sends the requests to a server and compares.
"""

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import msgspec

from paymock.resources import checkout, endpoints, payments
from paymock.resources.catalog import Catalog
from paymock.resources.records import PaymentRecord
from paymock.rules import identifiers
from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import CREATED, simulate
from paymock.schemas import json_decoding
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.http.auth import Keyring
from paymock.web.http.error_responses import error_response
from paymock.web.http.headers import requested_scenario
from paymock.web.http.requests import Body, Request, parse_request

SEED = "examples"
NOW = 1_896_091_200_000
"""2030-01-31T12:00:00Z, in milliseconds since the epoch: when the examples happen."""

IDEMPOTENCY_KEY = "order-1001-payment"
ENDPOINT_IDEMPOTENCY_KEY = "webhook-endpoint-1"
_ANY_DUE = 1010

_OPTIONAL = ("refund_to", "expires_at", "metadata")
ENDPOINT: Mapping[str, Any] = {
    "url": "https://merchant.example/hooks",
    "events": ["payment.completed", "payment.failed"],
}


class ExampleContext(NamedTuple):
    """What the examples of a server depend on: its chains and assets, its fee, and the keys that it takes."""

    catalog: Catalog
    fee_bps: int
    keyring: Keyring

    @property
    def chain(self) -> str:
        """The chain of the examples: the first of the catalog."""
        return next(iter(self.catalog.chains))

    @property
    def payment(self) -> dict[str, Any]:
        """A create request with every field: for a token, not for the chain's own coin."""
        chain = self.chain
        asset = self.catalog.another_asset(chain, self.catalog.chains[chain].native_asset)
        return {
            "order_id": "order-1001",
            "receive": {
                "chain": chain,
                "asset": asset,
                "amount": "1000000000000000000",
                "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
            },
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [{"chain": chain, "asset": asset}],
            "refund_to": {"chain": chain, "address": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"},
            "expires_at": "2099-01-31T12:30:00Z",
            "metadata": {"customer_id": "c_1"},
        }

    @property
    def refused_payment(self) -> dict[str, Any]:
        """A create request with two mistakes."""
        payment, chain = self.payment, self.chain
        other = self.catalog.another_asset(chain, payment["receive"]["asset"])
        return {**payment, "order_id": "", "pay_with": [{"chain": chain, "asset": other}]}

    def record(self, scenario: str) -> PaymentRecord:
        """The record of the example payment in a scenario."""
        creation = payments.Creation(_token(IDEMPOTENCY_KEY), b"", scenario, NOW)
        return payments.create_record(self.payment, creation, self.catalog, self.fee_bps)


class Example(NamedTuple):
    """An example, and one line on what it shows."""

    summary: str
    value: Any


class Moment(NamedTuple):
    """A moment of a payment that is worth showing: by scenario, milliseconds after creation."""

    scenario: str
    at: int


def payment_id() -> str:
    """The id of the payment in the examples."""
    return identifiers.PAYMENT_PREFIX + _token(IDEMPOTENCY_KEY)


def requests_of(operation_id: str) -> tuple[str, ...]:
    """The names of the request examples of an operation."""
    return _REQUESTS.get(operation_id, ())


def replies_of(operation_id: str) -> tuple[str, ...]:
    """The names of the examples of an operation's success."""
    return tuple(moments()) if operation_id == "getPayment" else _REPLIES.get(operation_id, ())


@cache
def moments() -> Mapping[str, Moment]:
    """The payment examples: the happy path when the deposit is seen, confirming and final, then the end of
    each scenario.
    """
    found = {
        "payment_detected": Moment("happy_path", 5_000),
        "payment_confirming": Moment("happy_path", 9_000),
        "payment_finalized": Moment("happy_path", 13_000),
    }
    for name in SCENARIOS:
        found[f"{name}_ends"] = Moment(name, simulate(SCENARIOS[name], _ANY_DUE, "")[-1].at)
    return found


def all_examples(premises: ExampleContext) -> Mapping[str, Example]:
    """Every example by its name."""
    request, catalog = premises.payment, premises.catalog
    created = premises.record("happy_path")
    endpoint = endpoints.create_record(ENDPOINT, _token(ENDPOINT_IDEMPOTENCY_KEY), b"", NOW)
    at_finality = payments.render(created, NOW + 13_000)
    assets = catalog.assets(premises.chain) or {}
    found = {
        "create_payment": Example("Every field", request),
        "create_payment_minimal": Example(
            "Only what is required", {name: value for name, value in request.items() if name not in _OPTIONAL}
        ),
        "payment_created": _example(
            "Just created: show the customer the instructions", payments.render(created, NOW)
        ),
        "attempts": _example("The funding is final", {"data": at_finality.attempts}),
        "chains": _example("The supported chains", {"data": list(catalog.chains.values())}),
        "assets": _example("The assets of one chain", {"data": list(assets.values())}),
        "create_webhook_endpoint": Example("Two events", ENDPOINT),
        "webhook_endpoint_created": _example("With its secret", endpoints.render(endpoint, with_secret=True)),
        "webhook_endpoints": _example(
            "One endpoint", {"data": [endpoints.render(endpoint, with_secret=False)]}
        ),
        "checkout": _example("The customer is asked to pay", _checkout(created, catalog)),
        "healthy": Example("All is well", {"status": "ok"}),
    }
    for name, (scenario, at) in moments().items():
        payment = payments.render(premises.record(scenario), NOW + at)
        found[name] = _example(f"{scenario}, {at // 1000} s after creation: {payment.status}", payment)
    found |= CONTROL_REQUESTS
    for code in ERRORS:
        found[code] = Example(code, msgspec.json.decode(error_response(_error(code, premises)).body))
    return found


def _token(idempotency_key: str) -> str:
    return identifiers.derive_token(
        identifiers.secret_from_seed(SEED), identifiers.sandbox_of(OPEN_KEY_EXAMPLE), idempotency_key
    )


def _checkout(created: PaymentRecord, catalog: Catalog) -> checkout.Checkout:
    asked = created.request.receive
    asset = (catalog.assets(asked.chain) or {})[asked.asset]
    return checkout.checkout(created, CREATED, 0, 1.0, catalog.chains[asked.chain], asset)


def _example(summary: str, reply: Any) -> Example:
    return Example(summary, msgspec.to_builtins(reply))


def _error(code: str, premises: ExampleContext) -> PaymockError:
    """The refusal with this code: by making the mistake, where it says more than the error table does."""
    mistakes: Mapping[str, Callable[[], object]] = {
        "invalid_json": lambda: json_decoding.decode(b'{"order_id": "order-1001",}'),
        "invalid_scenario": lambda: requested_scenario(_request((b"x-mock-scenario", b"happy"))),
        "unauthenticated": lambda: premises.keyring.sandbox(_request((b"authorization", b"Bearer unknown"))),
        "validation_failed": lambda: payments.create_record(
            premises.refused_payment,
            payments.Creation("", b"", "happy_path", NOW),
            premises.catalog,
            premises.fee_bps,
        ),
    }
    try:
        mistakes.get(code, lambda: None)()
    except PaymockError as error:
        return error
    return PaymockError(code)


def _request(*headers: tuple[bytes, bytes]) -> Request:
    return parse_request("POST", b"/v1/payments", headers, Body(b""))


CONTROL_REQUESTS = {
    "freeze": Example("Stand still", {"speed": 0}),
    "ten_times": Example("Ten times as fast", {"speed": 10}),
    "advance_45_seconds": Example("The length of the happy path", {"seconds": 45}),
    "to_completed": Example("To a status", {"to": "completed"}),
    "to_next": Example("To the next change", {"to": "next"}),
    "by_8_seconds": Example("By seconds", {"seconds": 8}),
    "half_of_due": Example("Half of the due amount of the other examples", {"amount": "505000000000000000"}),
    "another_asset": Example("In another asset", {"amount": "1010000000000000000", "asset": "USDC"}),
    "next_scenario": Example("The next payment expires", {"scenario": "no_payment_expired"}),
    "standing_fault": Example(
        "The first try of every payment fails", {"fault": "status=503; times=1", "times": None}
    ),
}

_REQUESTS = {
    "setClock": ("freeze", "ten_times"),
    "advanceClock": ("advance_45_seconds",),
    "advancePayment": ("to_completed", "to_next", "by_8_seconds"),
    "makeDeposit": ("half_of_due", "another_asset"),
    "setNext": ("next_scenario", "standing_fault"),
    "createPayment": ("create_payment", "create_payment_minimal"),
    "createWebhookEndpoint": ("create_webhook_endpoint",),
}
_REPLIES = {
    "listChains": ("chains",),
    "listAssets": ("assets",),
    "createPayment": ("payment_created",),
    "listAttempts": ("attempts",),
    "createWebhookEndpoint": ("webhook_endpoint_created",),
    "listWebhookEndpoints": ("webhook_endpoints",),
    "getCheckout": ("checkout",),
    "livez": ("healthy",),
    "readyz": ("healthy",),
}
