"""The request and reply bodies of `/v1`, except those of chains and assets. The docstrings and descriptions
are part of the OpenAPI document.

Amounts are strings of raw token units; times are RFC 3339 strings. Requests refuse unknown fields, so that a
typo is an error; later releases may add fields to replies. Specification: "Resources and their fields".
"""

from typing import Annotated, Final, Literal

import msgspec
from msgspec import UNSET, Meta, UnsetType

from paymock.rules.errors import ERRORS
from paymock.rules.identifiers import ATTEMPT_PREFIX, DEPOSIT_PREFIX, ENDPOINT_PREFIX, PAYMENT_PREFIX
from paymock.rules.scenarios import TERMINAL_STATUSES, DepositStatus, PaymentStatus
from paymock.schemas.fields import (
    Address,
    Amount,
    AssetId,
    ChainId,
    EndpointUrl,
    EventName,
    Events,
    Expiry,
    Metadata,
    Note,
    OrderId,
    Sum,
    Timestamp,
    doc,
    enumeration,
    identifier,
)

INSTRUCTION_TYPE = "evm_invoice_address"
SETTLEMENT_MODE: Final = "same_chain_merchant_payout"

CREATE_PAYMENT = "createPayment"
CREATE_ENDPOINT = "createWebhookEndpoint"
GET_PAYMENT = "getPayment"
PAYMENT_READS = (GET_PAYMENT, "listAttempts")
PAYMENT_OPERATIONS = (CREATE_PAYMENT, *PAYMENT_READS)
"""The ids of the operations that are about one payment."""

OPERATION_IDS = ("listChains", "listAssets", *PAYMENT_OPERATIONS, CREATE_ENDPOINT, "listWebhookEndpoints")
"""The ids of all operations of `/v1`."""

SETTLING = (
    PaymentStatus.SETTLEMENT_PENDING,
    PaymentStatus.SETTLEMENT_SUBMITTED,
    PaymentStatus.COMPLETED,
    PaymentStatus.FAILED,
)
"""The statuses of a payment whose attempt stays `payment_finalized`."""

_TERMINAL = [f"`{status}`" for status in (*SETTLING, *PaymentStatus) if status in TERMINAL_STATUSES]
*_OTHERS, _LAST = dict.fromkeys(_TERMINAL)


class Reply(msgspec.Struct, kw_only=True):
    """What every reply body shares: later releases may add fields."""


class Request(msgspec.Struct, kw_only=True, forbid_unknown_fields=True):
    """What every request body shares: unknown fields are refused by name."""


class Query(msgspec.Struct, kw_only=True):
    """What all query strings share: parameters that the type does not name are refused."""


class Receive(Reply):
    """What the merchant receives."""

    chain: Annotated[ChainId, doc("Chain where the settlement is received.")]
    asset: Annotated[AssetId, doc("Asset to receive.")]
    amount: Annotated[Amount, doc("What the merchant receives, in raw token units.")]
    address: Annotated[Address, doc("The merchant's payout address. Echoed as sent.")]


class Settlement(Reply):
    """Settlement choice."""

    mode: Annotated[
        str, doc("As sent. Later releases can add modes to `SettlementMode`.", examples=[SETTLEMENT_MODE])
    ]


class PayWith(Reply):
    """A chain and asset that the customer can pay with."""

    chain: Annotated[ChainId, doc("In the mock, the same as `receive.chain`.")]
    asset: Annotated[AssetId, doc("In the mock, the same as `receive.asset`.")]


class RefundTo(Reply):
    """Used for refund handling."""

    chain: ChainId
    address: Annotated[Address, doc("Refund address. Echoed as sent.")]


class ReceiveRequest(Receive, forbid_unknown_fields=True):
    """What the merchant asks to receive."""


class SettlementRequest(Settlement, forbid_unknown_fields=True):
    """The settlement that the merchant chooses."""

    mode: Annotated[
        Literal["same_chain_merchant_payout"],
        Meta(
            title="SettlementMode",
            description="The merchant receives the same-chain payout that `receive` describes.",
        ),
    ]


class PayWithRequest(PayWith, forbid_unknown_fields=True):
    """A chain and asset that the customer shall pay with."""


class RefundToRequest(RefundTo, forbid_unknown_fields=True):
    """Where refunds shall go."""


class CreatePayment(Request):
    """The body of `POST /v1/payments`."""

    order_id: OrderId
    receive: ReceiveRequest
    settlement: SettlementRequest
    pay_with: Annotated[
        list[PayWithRequest], doc("Exactly one item in the mock.", min_length=1, max_length=1)
    ]
    refund_to: Annotated[RefundToRequest | None, doc("Default: no refund address.")] = None
    expires_at: Annotated[Expiry | None, doc("Default: 30 minutes after creation.")] = None
    metadata: Annotated[Metadata | None, doc("Default: `{}`.")] = None


class Amounts(Reply):
    """`due` = `settlement` + `fee`, in raw token units."""

    due: Annotated[Amount, doc("What the customer must pay.")]
    settlement: Annotated[Amount, doc("What the merchant receives.")]
    fee: Annotated[Amount, doc("Service fee, added on top of the settlement. Gas is separate.")]


class Instructions(Reply):
    """How the customer pays. Interpret it by `type`: later releases can add types with other fields."""

    type: Annotated[str, doc("The kind of instructions.", examples=[INSTRUCTION_TYPE])]
    chain: ChainId
    asset: AssetId
    invoice_address: Annotated[Address, doc("Where to pay. A mock: nobody holds its key, send no funds.")]
    amounts: Amounts


class Funding(Reply):
    """What has been received in the right asset. Pending and finalized add up to the sum of the counted
    deposits.
    """

    amount_received_pending: Annotated[Sum, doc("Received but not yet final.")]
    amount_received_finalized: Annotated[Sum, doc("Received and final.")]
    overpaid_amount: Annotated[Sum, doc("The finalized part above `due`, if any.")] | UnsetType = UNSET


class Deposit(Reply, gc=False):
    """A transfer that was observed."""

    id: Annotated[str, identifier(DEPOSIT_PREFIX, "a deposit")]
    status: DepositStatus
    confirmations: Annotated[int, doc("Confirmations seen so far.", ge=0)]
    confirmations_required: Annotated[int, doc("Confirmations until a deposit is final.", ge=1)]
    chain: ChainId
    asset: Annotated[AssetId, doc("The asset that arrived.")]
    amount: Annotated[Amount, doc("What arrived, in raw units of `asset`.")]
    from_address: Annotated[Address, doc("Where the simulated customer paid from.")]
    tx_hash: Annotated[str, doc("Hash of the simulated transaction.")]
    observed_at: Timestamp


class Attempt(Reply):
    """An invoice attempt. Its status is the funding side of the payment: it stays `payment_finalized`
    during and after the settlement.
    """

    id: Annotated[str, identifier(ATTEMPT_PREFIX, "an attempt")]
    status: Annotated[
        str,
        enumeration(
            "AttemptStatus",
            "Where the funding of an attempt stands.",
            [status for status in PaymentStatus if status not in SETTLING],
        ),
    ]
    instructions: Instructions
    funding: Annotated[Funding, doc("Present once a transfer is observed.")] | UnsetType = UNSET
    deposits: Annotated[list[Deposit], doc("Present once a transfer is observed.")] | UnsetType = UNSET


class Payment(Reply):
    """A payment and its invoice attempts."""

    id: Annotated[str, identifier(PAYMENT_PREFIX, "a payment")]
    status: Annotated[
        PaymentStatus,
        doc(
            f"Final are {', '.join(_OTHERS)} and {_LAST}; `expired` too, unless a late transfer "
            "moves it to `manual_review`."
        ),
    ]
    order_id: OrderId
    receive: Receive
    settlement: Settlement
    pay_with: Annotated[list[PayWith], doc("What the customer can pay with.")]
    refund_to: Annotated[RefundTo | None, doc("Where refunds would go.")]
    expires_at: Expiry
    metadata: Metadata
    created_at: Timestamp
    updated_at: Annotated[Timestamp, doc("When anything of the payment last changed.")]
    attempts: Annotated[list[Attempt], doc("The first one carries the invoice instructions.")]


class AttemptList(Reply):
    """The attempts of a payment."""

    data: Annotated[list[Attempt], doc("Oldest first.")]


class CreateWebhookEndpoint(Request):
    """The body of `POST /v1/webhooks`."""

    url: EndpointUrl
    events: Annotated[Events | None, doc('The events of interest. Default: `["*"]`, all of them.')] = None
    description: Annotated[Note | None, doc("A note of your own. Default: `null`.")] = None


class WebhookEndpoint(Reply):
    """A webhook endpoint. The mock records it and never delivers anything to it."""

    id: Annotated[str, identifier(ENDPOINT_PREFIX, "a webhook endpoint")]
    url: Annotated[str, doc("As sent.")]
    events: Annotated[list[EventName], doc('The events of interest; `["*"]` is all of them.')]
    description: Annotated[str | None, doc("As sent.")]
    status: Annotated[
        Literal["enabled"], Meta(title="WebhookEndpointStatus", description="Always `enabled` in the mock.")
    ]
    created_at: Timestamp


class CreatedWebhookEndpoint(WebhookEndpoint):
    """A webhook endpoint with its secret, which no later reply shows."""

    secret: Annotated[str, doc("The mock signs nothing with it.")]


class WebhookEndpointList(Reply):
    """The webhook endpoints of this API key."""

    data: Annotated[list[WebhookEndpoint], doc("Oldest first.")]


class Health(Reply):
    """The reply of a health check."""

    status: Annotated[Literal["ok"], Meta(title="HealthStatus", description="Always `ok`.")]
    version: Annotated[str, doc("The version of paymock.")]


class Problem(Reply):
    """One problem of a refused body."""

    field: Annotated[
        str, doc("Dotted path of the field; `body` for the whole.", examples=["pay_with[0].asset"])
    ]
    message: Annotated[str, doc("What would be right.")]


_OPEN = "Stable, for programs. An open set: the real service may have other codes than these."


class ErrorDetail(Reply):
    """Why a request was refused."""

    code: Annotated[str, Meta(title="ErrorCode", description=_OPEN, examples=[*ERRORS])]
    message: Annotated[str, doc("For the developer who reads it; may change.")]
    request_id: Annotated[str, doc("The same as in the header `X-Request-Id`.")]
    details: Annotated[list[Problem], doc("With `validation_failed`: up to 100 problems.")] | UnsetType = (
        UNSET
    )


class ErrorEnvelope(Reply):
    """The body of every refusal."""

    error: ErrorDetail
