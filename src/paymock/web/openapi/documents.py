"""The two OpenAPI documents: the service, and the control API."""

from paymock.rules.tables import scenario_table, timing_table
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.web.api import checkout, control, health, public
from paymock.web.openapi.generator import Api

TAGS = {
    "Payments": "Create a payment, show its invoice, poll until it is settled.",
    "Chains and assets": "What a payment can be made in.",
    "Webhooks": "Endpoints are recorded and listed; nothing is ever delivered.",
    "Checkout": "What the customer sees: a page, and its data.",
    "Health": "For supervisors and load balancers.",
}

INTRODUCTION = f"""**No real funds move, no chain is ever contacted.**

1. `POST /v1/payments` creates a payment and answers with an invoice address and the amount due.
2. Your customer would pay `amounts.due` to `invoice_address`. The mock simulates that, and what follows.
3. Poll `GET /v1/payments/{{payment_id}}` until the status is final. The mock delivers no webhooks.

Press *Authorize* and enter an API key. A server that was started without keys of its own accepts any key of
the form `mk_test_NAME`, for example `{OPEN_KEY_EXAMPLE}`. Every key opens a sandbox of its own.

## Scenarios

The header `X-Mock-Scenario` of the create request selects what happens to the payment:

{scenario_table()}

## Times

{timing_table()}

## Everywhere

- Every reply carries `X-Request-Id`, which names the request in the server's log, and `Cache-Control`.
- `HEAD` works wherever `GET` does. `OPTIONS` answers 204 with `Allow`, without a key.
- Paths are exact: any other is 404 `not_found`. A method that a path does not have is 405
  `method_not_allowed`, with `Allow`.
- Pages of any web origin may call `/v1`: replies carry `Access-Control-Allow-Origin: *` and
  `Access-Control-Expose-Headers`, and preflight requests are answered.

## Amounts

All amounts are raw token units: an integer written as a string. The `decimals` of an asset say how many of
them make one token. `due` = `settlement` + `fee`.
"""

CONTROL_TAGS = {
    "Time": "Freeze, speed up and advance the clock of a sandbox; advance one payment; wait.",
    "Payments": "Inspect payments, and simulate deposits.",
    "Overrides and faults": "For applications that cannot add headers, and to test retries.",
    "Sandbox": "The journal of requests, and reset.",
}

CONTROL_INTRODUCTION = """Controls the mock: time, deposits, waiting, faults, a journal of requests.
It acts on the sandbox of the API key, and on no other.

Every change is there when its reply comes: the very next read shows it. Nothing runs in the background.

## Faults

Every request below `/v1` can ask for a fault with the header `X-Mock-Fault`:

| Value | What happens |
| --- | --- |
| `status=503` | The request is refused with this status, 400 to 599; nothing is stored |
| `delay=1500` | The request is carried out after this many milliseconds, at most 30,000 |
| `drop` | The request is carried out, then the connection is closed without a reply |

With `; times=2` after it, the fault applies to the first two attempts only: of an idempotency key, or without
one, of a method and path. Applications that cannot add headers use `POST /_mock/next`.
"""

PUBLIC_API = Api(
    "paymock",
    "A mock of a crypto payment-collection service.",
    INTRODUCTION,
    TAGS,
    (*public.OPERATIONS, *checkout.OPERATIONS, *health.OPERATIONS),
)
CONTROL_API = Api(
    "paymock control API",
    "Time, deposits, faults and waiting for tests.",
    CONTROL_INTRODUCTION,
    CONTROL_TAGS,
    control.OPERATIONS,
)
