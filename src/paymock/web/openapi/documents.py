"""The two OpenAPI documents: the service, which has the operations of the specification and no others, and
all that only this server has. Specification: "Endpoints".
"""

from paymock.web.openapi.generator import Api
from paymock.web.operations import checkout, control, health, public

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

Calls below `/_mock` act on the sandbox of the API key, and on no other. Every change is there when its reply
comes: the very next read shows it. Nothing runs in the background.
"""

PUBLIC_API = Api(
    "paymock",
    "A mock of a crypto payment-collection service.",
    INTRODUCTION,
    TAGS,
    public.OPERATIONS,
)
CONTROL_API = Api(
    "paymock control API",
    "Time, deposits, faults and waiting for tests.",
    CONTROL_INTRODUCTION,
    CONTROL_TAGS,
    (*control.OPERATIONS, *checkout.OPERATIONS, *health.OPERATIONS),
)
