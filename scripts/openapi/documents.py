"""The two OpenAPI documents, as far as the rows of their operations do not say it: the service, which has the
operations of the specification and no others, and all that only this server has. Specification: "Endpoints".
"""

from collections.abc import Mapping, Sequence
from typing import Any, NamedTuple

from paymock.http.headers import IDEMPOTENCY_KEY, MAX_KEY_LENGTH, MIN_KEY_LENGTH
from paymock.rules.scenarios import DEFAULT_SCENARIO
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.operations import control, keyless, public
from paymock.web.operations.operations import Operation
from scripts.openapi import examples

Json = dict[str, Any]


class Api(NamedTuple):
    """The operations of a document, and the texts that introduce them."""

    title: str
    summary: str
    introduction: str
    tags: Mapping[str, str]
    operations: Sequence[Operation]


TAGS = {
    "Payments": "Create a payment, show its invoice, poll until it is settled.",
    "Chains and assets": "What a payment can be made in.",
    "Webhooks": "Endpoints are recorded and listed; nothing is ever delivered.",
}

INTRODUCTION = """No real funds move, no chain is ever contacted.

Create a payment with `POST /v1/payments` and show the customer its instructions. The mock simulates the
deposit and what follows. Poll `GET /v1/payments/{payment_id}` until the status is final.
"""

CONTROL_TAGS = {
    "Time": "Freeze, speed up and advance the clock of a sandbox; advance one payment; wait.",
    "Payments": "Inspect payments, and simulate deposits.",
    "Overrides and faults": "For applications that cannot add headers, and to test retries.",
    "Sandbox": "The journal of requests, and reset.",
    "Checkout": "What the customer sees: a page, and its data.",
    "Health": "For supervisors and load balancers.",
}

CONTROL_INTRODUCTION = """What the real service does not have: virtual time, deposits, faults, waiting, a
journal of requests, the checkout and health checks.

Calls below `/_mock` act on the sandbox of the API key, and on no other. A change is complete when its reply
arrives: the next read shows it. Nothing runs in the background. In place of a `payment_id` in a path, an
order selects its newest payment.
"""

PUBLIC_API = Api(
    "paymock",
    "A mock crypto-payment API.",
    INTRODUCTION,
    TAGS,
    public.OPERATIONS,
)
CONTROL_API = Api(
    "paymock control API",
    "Time, deposits, faults and waiting for tests.",
    CONTROL_INTRODUCTION,
    CONTROL_TAGS,
    (*control.OPERATIONS, *keyless.CHECKOUTS, *keyless.HEALTH),
)

ANY_ERRORS = ("bad_request", "misdirected_request", "headers_too_large", "internal_error")
"""The error codes of every operation."""

KEYED_ERRORS = ("unauthenticated", "store_unavailable")
"""The further error codes of operations that need an API key."""

BODY_ERRORS = (
    "invalid_json",
    "payload_too_large",
    "unsupported_media_type",
    "unsupported_content_encoding",
    "validation_failed",
)
"""The error codes of every operation with a body."""

KEY_ERRORS = (
    "idempotency_key_missing",
    "idempotency_key_invalid",
    "idempotency_key_reused_with_different_payload",
)
"""The further error codes of operations that take an idempotency key."""

OTHER_ERRORS = ("not_found", "method_not_allowed", "injected_fault")
"""The error codes that belong to no operation: of paths, methods and injected faults."""

SECURITY_SCHEMES: Json = {
    "apiKey": {
        "type": "http",
        "scheme": "bearer",
        "description": "The API key. Keep it on the merchant's backend only. In open mode, "
        f"`{OPEN_KEY_EXAMPLE}` will do.",
    }
}

HEADERS: Json = {
    "X-Request-Id": {
        "description": "Names this request in the server's log.",
        "required": True,
        "schema": {"type": "string"},
        "example": "req_4f1c09ab3d_1",
    },
    "Location": {
        "description": "The path of the created payment.",
        "required": True,
        "schema": {"type": "string"},
        "example": f"/v1/payments/{examples.payment_id()}",
    },
    "Link": {
        "description": 'The page for the customer, with `rel="payment"`.',
        "required": True,
        "schema": {"type": "string"},
        "example": f'</checkout/{examples.payment_id()}>; rel="payment"',
    },
    "Allow": {
        "description": "The methods of the path; with 405.",
        "schema": {"type": "string"},
        "example": "GET, HEAD, OPTIONS",
    },
    "Idempotent-Replayed": {
        "description": "`true` when the reply repeats that of an earlier request with the same key.",
        "schema": {"type": "string", "pattern": "^true$"},  # generators trip over an enumeration in a header
    },
    "X-Mock-Warning": {
        "description": "What this mock ignores, or the real service does otherwise, in words.",
        "schema": {"type": "string"},
        "example": "nothing is delivered by this mock; poll the payment",
    },
    "WWW-Authenticate": {
        "description": 'The scheme to use; with `error="invalid_token"` when a key was sent.',
        "required": True,
        "schema": {"type": "string"},
        "example": 'Bearer realm="paymock"',
    },
    "Retry-After": {
        "description": "Seconds to wait before a retry, or an HTTP date. Absent if a fault says so.",
        "schema": {"type": "string"},
        "example": "1",
    },
}

NEW_KEY = "{{$guid}}"
"""What Postman and Bruno replace by a new UUID in each request, and is a valid key elsewhere."""

_IDEMPOTENCY_KEY = {
    "type": "string",
    "minLength": MIN_KEY_LENGTH,
    "maxLength": MAX_KEY_LENGTH,
    "pattern": f"^{IDEMPOTENCY_KEY}$",
}

PARAMETERS: Json = {
    "IdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": True,
        "description": "8 to 128 visible ASCII characters, one key for each business operation. A retry of "
        "the same operation sends the same key; another body or another scenario needs a new one. "
        f"Postman and Bruno send a new one for `{NEW_KEY}`.",
        "schema": _IDEMPOTENCY_KEY,
        "example": NEW_KEY,
    },
    "OptionalIdempotencyKey": {
        "name": "Idempotency-Key",
        "in": "header",
        "required": False,
        "description": "Makes a retry safe: 8 to 128 visible ASCII characters.",
        "schema": _IDEMPOTENCY_KEY,
        "example": NEW_KEY,
    },
    "MockScenario": {
        "name": "X-Mock-Scenario",
        "in": "header",
        "required": False,
        # No default: generated clients would send it, and an override would never apply.
        "description": f"What happens to the payment; `{DEFAULT_SCENARIO}` without it. Each request can also "
        "have the header `X-Mock-Fault`, which injects a fault: `status=503; times=2`.",
        "schema": {"$ref": "#/components/schemas/Scenario"},
        "example": DEFAULT_SCENARIO,  # Postman would send any
    },
}

PAYMENT_LINKS: Json = {
    "payment": {
        "operationId": "getPayment",
        "parameters": {"payment_id": "$response.body#/id"},
        "description": "Poll the payment by its `id`.",
    },
    "attempts": {
        "operationId": "listAttempts",
        "parameters": {"payment_id": "$response.body#/id"},
        "description": "List its attempts by its `id`.",
    },
}
"""The links of the reply to a creation."""
