"""The operations of the specification. A handler decodes the request, calls the service once, and encodes the
reply. Specification: "Endpoints".
"""

import msgspec

from paymock.app.payments import PaymentsService
from paymock.http.headers import requested_scenario
from paymock.http.requests import Request
from paymock.http.responses import REPLAYED, WARNING, Response
from paymock.http.routing import CHECKOUT
from paymock.rules.scenarios import DEFAULT_SCENARIO, TERMINAL_STATUSES, PaymentStatus
from paymock.schemas import catalog as catalog_schemas
from paymock.schemas import public as schemas
from paymock.web.operations.operations import Operation, keyed_request
from paymock.web.responses import OperationResponse

Headers = tuple[tuple[str, str], ...]

_encode = msgspec.json.Encoder().encode
_ENDED = {*TERMINAL_STATUSES, PaymentStatus.EXPIRED}
_NOT_DELIVERED = "nothing is delivered by this mock; poll the payment"
_KEY_EXPIRED = (
    "the key is older than 24 hours: the real service has forgotten it, and would create another one"
)


async def list_chains(service: PaymentsService, request: Request) -> Response:
    return Response(200, _encode(service.chains()))


async def list_assets(service: PaymentsService, request: Request) -> Response:
    return Response(200, _encode(service.assets(request.params["chain"])))


async def create_payment(
    service: PaymentsService, request: Request, unless_rule_for: str | None = None
) -> Response:
    requested = scenario = requested_scenario(request, service.scenarios)
    if scenario is None and b"x-mock-fault" in request.headers:
        scenario = DEFAULT_SCENARIO  # a request with a fault header takes no override
    created = await service.create_payment(await keyed_request(request), scenario, unless_rule_for)
    payment = created.payment
    location = ("Location", f"{request.root_path}/v1/payments/{payment.id}")
    link = ("Link", f'<{request.root_path}{CHECKOUT}{payment.id}>; rel="payment"')
    headers: Headers = (location, link)
    if created.replayed:
        is_other = requested not in (None, created.scenario)
        other = f"replayed payment follows {created.scenario}, not {requested}" if is_other else ""
        ended = f"this payment is `{created.status}` by now" if created.status in _ENDED else ""
        headers += (REPLAYED, *_warning(other, _KEY_EXPIRED if created.key_expired else "", ended))
    return OperationResponse(201, payment.json, headers=headers, payment=payment, scenario=created.scenario)


def _warning(*texts: str) -> Headers:
    """Return the header that tells of what the real service does otherwise, unless all `texts` are empty."""
    text = "; ".join(filter(None, texts))
    return ((WARNING, text),) if text else ()


async def read_payment(service: PaymentsService, request: Request) -> Response:
    payment = await service.payment(request.sandbox, request.params["payment_id"])
    return OperationResponse(200, payment.json, payment=payment)


async def list_attempts(service: PaymentsService, request: Request) -> Response:
    payment = await service.payment(request.sandbox, request.params["payment_id"])
    return OperationResponse(200, payment.attempts_json, payment=payment)


async def create_endpoint(
    service: PaymentsService, request: Request, unless_rule_for: str | None = None
) -> Response:
    keyed = await keyed_request(request)
    endpoint, replayed, key_expired = await service.create_endpoint(keyed, unless_rule_for)
    warning = _warning(_NOT_DELIVERED, _KEY_EXPIRED if key_expired else "")
    return Response(201, _encode(endpoint), headers=(*((REPLAYED,) if replayed else ()), *warning))


async def list_endpoints(service: PaymentsService, request: Request) -> Response:
    return Response(200, _encode(await service.endpoints(request.sandbox)))


OPERATIONS = (
    Operation(
        route="GET /v1/chains",
        handler=list_chains,
        operation_id="listChains",
        tag="Chains and assets",
        summary="List supported chains",
        description="The chains that a payment can name.",
        reply=catalog_schemas.ChainList,
    ),
    Operation(
        route="GET /v1/chains/{chain}/assets",
        handler=list_assets,
        operation_id="listAssets",
        tag="Chains and assets",
        summary="List assets of a chain",
        description="The assets of a chain. `decimals` tells how many raw units make one token; every amount "
        "of this API is in raw units.",
        reply=catalog_schemas.AssetList,
        errors=("chain_not_found",),
    ),
    Operation(
        route="POST /v1/payments",
        handler=create_payment,
        operation_id="createPayment",
        tag="Payments",
        summary="Create a payment",
        description=f"""Creates a payment. Its invoice instructions are in `attempts[0].instructions`.
Show the customer `invoice_address` and `amounts.due`, then poll `GET /v1/payments/{{payment_id}}`.

`X-Mock-Scenario` chooses what happens next; without it, the payment follows `{DEFAULT_SCENARIO}`.

The same `Idempotency-Key` with the same body answers with the original reply, byte for byte, and
`Idempotent-Replayed: true`; with another body, or on another endpoint, it is refused with 409.
A refused request leaves its key free.

All amounts are raw token units: an integer written as a string. The `decimals` of an asset say how many of
them make one token. `due` = `settlement` + `fee`.

{{scenarios}}""",
        request=schemas.CreatePayment,
        idempotency="required",
        reply=schemas.Payment,
        creates=True,
        takes_scenario=True,
        errors=("invalid_scenario", "capacity_exceeded"),
        reply_headers=("Location", "Link", "Idempotent-Replayed"),
    ),
    Operation(
        route="GET /v1/payments/{payment_id}",
        handler=read_payment,
        operation_id="getPayment",
        tag="Payments",
        summary="Read a payment",
        description="""The payment as it stands now. Poll it: the mock delivers no webhooks.
Reading changes nothing.

`attempts[0].funding` and `attempts[0].deposits` appear once a transfer is observed. On the happy path:

{timing}""",
        reply=schemas.Payment,
    ),
    Operation(
        route="GET /v1/payments/{payment_id}/attempts",
        handler=list_attempts,
        operation_id="listAttempts",
        tag="Payments",
        summary="List attempts of a payment",
        description="The invoice attempts of a payment, as they stand now. In the mock there is exactly one.",
        reply=schemas.AttemptList,
    ),
    Operation(
        route="POST /v1/webhooks",
        handler=create_endpoint,
        operation_id="createWebhookEndpoint",
        tag="Webhooks",
        summary="Create a webhook endpoint",
        description="""Records a webhook endpoint, at most 100 for an API key.
**Nothing is ever delivered to it**: the mock is observed by polling only.
The create reply carries the endpoint's `secret`.""",
        request=schemas.CreateWebhookEndpoint,
        idempotency="required",
        reply=schemas.CreatedWebhookEndpoint,
        creates=True,
        errors=("capacity_exceeded",),
        reply_headers=("Idempotent-Replayed",),
    ),
    Operation(
        route="GET /v1/webhooks",
        handler=list_endpoints,
        operation_id="listWebhookEndpoints",
        tag="Webhooks",
        summary="List webhook endpoints",
        description="The webhook endpoints of this API key, oldest first, without their secrets.",
        reply=schemas.WebhookEndpointList,
    ),
)
