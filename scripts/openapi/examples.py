"""The examples of the OpenAPI documents: requests, and replies at fixed times.

The replies are computed by the code that serves requests, with a fixed secret and clock. A test sends the
requests to a server and compares.
"""

import re
from collections.abc import Callable, Mapping
from functools import cache
from typing import Any, NamedTuple

import httpx
import msgspec
from msgspec.structs import replace

from paymock import __version__
from paymock.http.headers import check_json_body, idempotency_key, requested_scenario
from paymock.http.keys import Keyring
from paymock.http.requests import Request
from paymock.http.responses import error_response
from paymock.payments import checkout, views
from paymock.payments import creation as creations
from paymock.payments.files import load_catalog
from paymock.payments.records import PaymentRecord
from paymock.rules import identifiers
from paymock.rules.amounts import DEFAULT_FEE_BPS
from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import CREATED, simulate, state_at
from paymock.sandbox.conflicts import CONFLICT, conflict
from paymock.sandbox.snapshot import KeyedRequest
from paymock.schemas import json as json_decoding
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.testing import serve
from paymock.web.documents import example_payment
from paymock.web.operations.faults import injected_error, requested_fault

SEED = "examples"
"""The seed of the ids in the examples."""

NOW = 1_896_091_200_000
"""The time of the examples, 2030-01-31T12:00:00Z, in milliseconds since the epoch."""

IDEMPOTENCY_KEY = "order-1001-payment"
ENDPOINT_IDEMPOTENCY_KEY = "webhook-endpoint-1"
CATALOG = load_catalog(None)
PAYMENT = example_payment(CATALOG)
CHAIN, ASSET = PAYMENT["receive"]["chain"], PAYMENT["receive"]["asset"]
INVALID_PAYMENT = PAYMENT | {
    "order_id": "",
    "pay_with": [{"chain": CHAIN, "asset": CATALOG.another_asset(CHAIN, ASSET)}],
}
OTHER_PAYMENT = PAYMENT | {"expires_at": "2030-01-31T13:00:00Z"}
REQUEST_ID = "req_0a1b2c3d4e_5"
_ANY_DUE = 1010  # raw units; the times of a scenario do not depend on the amount

_REQUEST = re.compile("req_[0-9a-f]+_[0-9a-f]+")
_DURATION = re.compile(r'"duration_ms":[0-9.e-]+')
_AT = re.compile(r'"at":"[^"]+"(?=,"method")')
"""What differs each time: a request's id, and how long it took in real time."""

_OPTIONAL_FIELDS = ("refund_to", "expires_at", "metadata")
ENDPOINT: Mapping[str, Any] = {
    "url": "https://merchant.example/hooks",
    "events": ["payment.completed", "payment.failed"],
}


class Example(NamedTuple):
    """An example value and its summary."""

    summary: str
    value: Any


def record(scenario: str) -> PaymentRecord:
    creation = creations.CreationContext(_token(IDEMPOTENCY_KEY), b"", SCENARIOS[scenario], NOW)
    return creations.create_record(PAYMENT, creation, CATALOG, DEFAULT_FEE_BPS)


def payment_id() -> str:
    return identifiers.PAYMENT_PREFIX + _token(IDEMPOTENCY_KEY)


def requests_of(operation_id: str) -> tuple[str, ...]:
    return _REQUESTS.get(operation_id, ())


def replies_of(operation_id: str) -> tuple[str, ...]:
    if operation_id in control_replies():
        return (_reply_name(operation_id),)
    return tuple(payment_examples()) if operation_id == "getPayment" else _REPLIES.get(operation_id, ())


def payment_examples() -> Mapping[str, tuple[str, int]]:
    """Return the scenarios and ages in milliseconds of the example payments by name: the happy path when the
    deposit is detected, confirming and final, and the end of each scenario.
    """
    ends = {
        f"{name}_ends": (name, simulate(scenario, _ANY_DUE, "")[-1].at)
        for name, scenario in SCENARIOS.items()
    }
    return {
        "payment_detected": ("happy_path", 5_000),
        "payment_confirming": ("happy_path", 9_000),
        "payment_finalized": ("happy_path", 13_000),
        **ends,
    }


@cache
def all_examples() -> Mapping[str, Example]:
    """Every example by name."""
    created = record("happy_path")
    created_view = views.view(created, CREATED)
    endpoint = creations.create_endpoint_record(ENDPOINT, _token(ENDPOINT_IDEMPOTENCY_KEY), b"", NOW)
    finalized = views.view(created, state_at(views.states(created), 13_000))
    chain, assets = CATALOG.chains[CHAIN], CATALOG.assets(CHAIN) or {}
    all_by_name = {
        "create_payment": Example("Every field", PAYMENT),
        "create_payment_minimal": Example(
            "Only what is required",
            {name: value for name, value in PAYMENT.items() if name not in _OPTIONAL_FIELDS},
        ),
        "payment_created": _example("Just created: show the customer the instructions", created_view),
        "attempts": _example("The funding is final", {"data": finalized.attempts}),
        "chains": _example("The supported chains", {"data": list(CATALOG.chains.values())}),
        "assets": _example("The assets of one chain", {"data": list(assets.values())}),
        "create_webhook_endpoint": Example("Two events", ENDPOINT),
        "webhook_endpoint_created": _example("With its secret", views.render_created_endpoint(endpoint)),
        "webhook_endpoints": _example("One endpoint", {"data": [views.render_endpoint(endpoint)]}),
        "checkout": _example(
            "The customer is asked to pay",
            checkout.checkout(created, CREATED, 0, 1.0, chain, assets),
        ),
        "healthy": Example("Healthy", {"status": "ok", "version": __version__}),
    }
    for name, (scenario, age) in payment_examples().items():
        payment = views.view(record(scenario), state_at(views.states(record(scenario)), age))
        all_by_name[name] = _example(f"{scenario}, {age // 1000} s after creation: {payment.status}", payment)
    all_by_name |= CONTROL_REQUESTS
    all_by_name |= {_reply_name(operation): example for operation, example in control_replies().items()}
    for code in ERRORS:
        all_by_name[code] = Example(code, msgspec.json.decode(error_response(_error(code), REQUEST_ID).body))
    return all_by_name


def _reply_name(operation_id: str) -> str:
    return re.sub("(?=[A-Z])", "_", operation_id).lower() + "_reply"


def _token(idempotency_key: str) -> str:
    return identifiers.derive_token(
        identifiers.secret_from_seed(SEED), identifiers.sandbox_of(OPEN_KEY_EXAMPLE), idempotency_key
    )


def _example(summary: str, reply: Any) -> Example:
    return Example(summary, msgspec.to_builtins(reply))


def _error(code: str) -> PaymockError:
    """Return the error with this code, from an invalid request if its message is more specific than that of
    the error table.
    """
    invalid_requests: Mapping[str, Callable[[], object]] = {
        "invalid_json": lambda: json_decoding.decode(b'{"order_id": "order-1001",}'),
        "idempotency_key_invalid": lambda: idempotency_key(_request((b"idempotency-key", b"short"))),
        "unsupported_media_type": lambda: check_json_body(_request((b"content-type", b"text/plain"))),
        "unsupported_content_encoding": lambda: check_json_body(_request((b"content-encoding", b"gzip"))),
        "invalid_scenario": lambda: requested_scenario(_request((b"x-mock-scenario", b"happy")), SCENARIOS),
        "invalid_fault": lambda: requested_fault("status=200"),
        "unauthenticated": lambda: Keyring(()).authenticate(_request((b"authorization", b"Bearer unknown"))),
        "validation_failed": lambda: creations.create_record(
            INVALID_PAYMENT,
            creations.CreationContext("", b"", SCENARIOS["happy_path"], NOW),
            CATALOG,
            DEFAULT_FEE_BPS,
        ),
    }
    if code == CONFLICT:
        fingerprints = [
            json_decoding.fingerprint("POST", "/v1/payments", one) for one in (PAYMENT, OTHER_PAYMENT)
        ]
        stored = replace(record("happy_path"), fingerprint=fingerprints[0])
        return conflict(stored, KeyedRequest("", IDEMPOTENCY_KEY, fingerprints[1], OTHER_PAYMENT))
    if code == "injected_fault":
        return injected_error(requested_fault("status=503"))
    try:
        invalid_requests.get(code, lambda: None)()
    except PaymockError as error:
        return error
    return PaymockError(code)


def _request(*headers: tuple[bytes, bytes]) -> Request:
    return Request("POST", "/v1/payments", dict(headers))


CONTROL_REQUESTS = {
    "freeze": Example("Freeze", {"speed": 0}),
    "ten_times": Example("Ten times as fast", {"speed": 10}),
    "advance_45_seconds": Example("The length of the happy path", {"seconds": 45}),
    "to_completed": Example("To a status", {"to": "completed"}),
    "to_next": Example("To the next change", {"to": "next"}),
    "by_8_seconds": Example("By seconds", {"seconds": 8}),
    "half_of_due": Example("Half of the due amount of the other examples", {"amount": "505000000000000000"}),
    "another_asset": Example("In another asset", {"amount": "1010000000000000000", "asset": "USDC"}),
    "next_scenario": Example("The next payment expires", {"scenario": "no_payment_expired"}),
    "next_course": Example(
        "The next payment is paid in two halves",
        {
            "course": {
                "name": "two_halves",
                "sending": [{"at": 5, "share": "1/2"}, {"at": 10, "share": "1/2", "plus": 1}],
            }
        },
    ),
    "standing_fault": Example(
        "The first attempt at every creation fails",
        {"fault": "status=503; times=1", "operation": "createPayment", "times": None},
    ),
    "lost_reply": Example("The reply to a creation is lost", {"fault": "drop", "operation": "createPayment"}),
    "failing_reads": Example(
        "The second and the third read of an order's payments fail with the page of a gateway",
        {
            "fault": "status=502; html",
            "operation": "getPayment",
            "order_id": "order-1002",
            "skip": 1,
            "times": 2,
        },
    ),
}

_REQUESTS = {
    "setClock": ("freeze", "ten_times"),
    "advanceClock": ("advance_45_seconds",),
    "advancePayment": ("to_completed", "to_next", "by_8_seconds"),
    "makeDeposit": ("half_of_due", "another_asset"),
    "setNext": ("next_scenario", "next_course"),
    "addFault": ("failing_reads", "lost_reply", "standing_fault"),
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


class _Call(NamedTuple):
    """A request to the control API, and the summary of its reply."""

    operation_id: str
    summary: str
    route: str
    body: Any = None


_CALLS = (
    _Call("setClock", "Frozen", "PUT /_mock/clock", {"now": "2030-01-31T12:00:00Z", "speed": 0}),
    _Call("setNext", "For one creation", "POST /_mock/next", {"scenario": "happy_path"}),
    _Call("getNext", "One is pending", "GET /_mock/next"),
    _Call("", "", "POST /v1/payments", PAYMENT),
    _Call("advancePayment", "It has got there", "POST {payment}/advance", {"to": "payment_detected"}),
    _Call("", "", "GET /v1/payments/{id}"),
    _Call("getPaymentDetail", "While the deposit is confirmed", "GET {payment}"),
    _Call("makeDeposit", "A second deposit", "POST {payment}/deposits", {"amount": "505000000000000000"}),
    _Call("listPayments", "One payment", "GET /_mock/payments"),
    _Call("waitForPayment", "It has been reached", "GET {payment}/wait?status=payment_detected"),
    _Call("waitForOrder", "The order has a payment", "GET /_mock/wait?order_id=order-1001"),
    _Call("waitForRequests", "It has come", "GET /_mock/requests/wait?operation=getPayment"),
    _Call("addFault", "Of one read", "POST /_mock/faults", {"fault": "drop", "operation": "getPayment"}),
    _Call("getStory", "One payment, two requests", "GET /_mock/story"),
    _Call("listFaults", "One rule", "GET /_mock/faults"),
    _Call("listRequests", "Newest first", "GET /_mock/requests"),
    _Call("listScenarios", "The eight built-in ones", "GET /_mock/scenarios"),
    _Call("advanceClock", "45 seconds later", "POST /_mock/clock/advance", {"seconds": 45}),
    _Call("getClock", "Frozen", "GET /_mock/clock"),
)


@cache
def control_replies() -> Mapping[str, Example]:
    """What a server replies to these requests, by operation, without what differs at each time."""
    replies = {}
    authorized = {"Authorization": f"Bearer {OPEN_KEY_EXAMPLE}"}
    with serve(seed=SEED) as server, httpx.Client(base_url=server.url, headers=authorized) as client:
        for call in _CALLS:
            method, _, path = call.route.partition(" ")
            path = path.format(payment=f"/_mock/payments/{payment_id()}", id=payment_id())
            key = {"Idempotency-Key": IDEMPOTENCY_KEY} if path == "/v1/payments" else {}
            reply = client.request(method, path, json=call.body, headers=key).raise_for_status()
            text = _REQUEST.sub(REQUEST_ID, _DURATION.sub('"duration_ms":0.4', reply.text))
            text = _AT.sub('"at":"2030-01-31T12:00:00.000Z"', text)
            is_json = reply.headers["Content-Type"].startswith("application/json")
            if call.operation_id:
                value = msgspec.json.decode(text) if is_json else text
                replies[call.operation_id] = Example(call.summary, value)
    return replies
