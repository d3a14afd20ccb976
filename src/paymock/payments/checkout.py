"""The checkout: a payment as its customer sees it, in one of seven views, without private data. All its texts
and JSON members are declared here. See docs/pages.md.
"""

import re
from collections.abc import Mapping
from typing import Annotated, Literal, NamedTuple

from msgspec import Meta

from paymock.payments.records import PaymentRecord
from paymock.rules import identifiers
from paymock.rules.amounts import to_tokens
from paymock.rules.scenarios import CONFIRMATIONS_REQUIRED, PAYMENT_WINDOW, TERMINAL_STATUSES, PaymentStatus
from paymock.rules.timeline import State
from paymock.rules.times import to_rfc3339
from paymock.schemas.catalog import Asset, Chain
from paymock.schemas.fields import Address, OrderId, Sum, Timestamp, doc, identifier
from paymock.schemas.public import Reply

ViewName = Literal["pay", "detected", "received", "complete", "expired", "review", "failed"]


class View(NamedTuple):
    """The texts for a status of the payment."""

    name: ViewName
    headline: str
    explanation: str
    next: str = ""


_RECEIVED = View(
    "received",
    "Payment received",
    "Your payment is confirmed, and on its way to the shop. You do not need to do anything.",
    "This page shows when the payment is complete. You do not need to wait.",
)
VIEWS: Mapping[PaymentStatus, View] = {
    PaymentStatus.AWAITING_PAYMENT: View(
        "pay",
        "Waiting for your payment",
        "Send the exact amount to the address shown before the time is up.",
        "When your payment arrives, this page shows it and counts its confirmations.",
    ),
    PaymentStatus.PAYMENT_DETECTED: View(
        "detected",
        "Payment detected",
        "Your payment is on its way. It is final after a few more confirmations.",
        "Once the whole amount is confirmed, it goes on to the shop.",
    ),
    PaymentStatus.PAYMENT_FINALIZED: _RECEIVED,
    PaymentStatus.SETTLEMENT_PENDING: _RECEIVED,
    PaymentStatus.SETTLEMENT_SUBMITTED: _RECEIVED,
    PaymentStatus.COMPLETED: View("complete", "Paid", "Payment complete. Thank you."),
    PaymentStatus.EXPIRED: View(
        "expired",
        "The time is up",
        "No payment arrived in time, and nothing was charged. Do not send anything to this address now: "
        "ask the shop for a new invoice.",
        "If a payment still arrives, the shop will look into it.",
    ),
    PaymentStatus.UNDERPAID_EXPIRED: View(
        "expired",
        "Partially paid, and the time is up",
        "Only part of the amount arrived in time. Do not send the rest now. Contact the shop, which can see "
        "what arrived.",
    ),
    PaymentStatus.OVERPAID_REVIEW: View(
        "review",
        "In review: you paid too much",
        "You paid more than the amount due. The shop will look into it; you do not need to do anything.",
    ),
    PaymentStatus.MANUAL_REVIEW: View(
        "review",
        "In review",
        "The shop will look into your payment; you do not need to do anything. Contact the shop if you "
        "have questions.",
    ),
    PaymentStatus.FAILED: View(
        "failed",
        "We received your payment but could not pass it on to the shop",
        "Do not pay again. The shop can see what happened. Contact the shop if you have questions.",
    ),
}
"""By status, in the order of `PaymentStatus`."""

_PARTIAL = View(
    "detected",
    "Part of your payment has arrived",
    "Send the rest to the same address before the time is up.",
    "When the rest arrives, this page shows it and counts its confirmations.",
)
_TOO_MUCH = VIEWS[PaymentStatus.PAYMENT_DETECTED]._replace(
    next="You paid more than the amount due: the shop will look into it."
)
_TIME_IS_UP = VIEWS[PaymentStatus.UNDERPAID_EXPIRED]._replace(next="What arrived is still being confirmed.")
"""A part has arrived, and is not yet final when the payment window closes."""

_MAX_TEXT = 120
_WEB_ADDRESS = re.compile(r"https?://[^\s/?#]\S*", re.IGNORECASE)


class TokenAmount(Reply):
    """An amount, for programs and for people."""

    raw: Annotated[Sum, doc("In raw units.")]
    tokens: Annotated[str, doc("In whole tokens.", examples=["1.01"])]


class CheckoutDeposit(TokenAmount):
    """A transfer that arrived, as its customer sees it."""

    symbol: Annotated[str, doc("Of the asset that arrived.", examples=["USDT"])]
    note: Annotated[str, doc("Why it is not in order: `another asset` or `too late`; or empty.")]


class Checkout(Reply):
    """A payment as its customer sees it."""

    payment_id: Annotated[str, identifier(identifiers.PAYMENT_PREFIX, "the payment")]
    order_id: OrderId
    status: PaymentStatus
    view: Annotated[ViewName, Meta(title="CheckoutView", description="Which of the seven views to show.")]
    headline: Annotated[str, doc("What the view says, in a few words.")]
    explanation: Annotated[str, doc("What that means for the customer.")]
    next: Annotated[str, doc("What comes next; empty when nothing does.")]
    final: Annotated[bool, doc("Whether nothing comes after this.")]
    return_url: Annotated[
        str, doc("`metadata.return_url`, where the page leads at the end: http or https; otherwise empty.")
    ]
    shop: Annotated[str, doc("`metadata.checkout.shop`, at most 120 characters; empty if not a string.")]
    description: Annotated[
        str, doc("`metadata.checkout.description`: what is bought, with the same limits as `shop`.")
    ]
    chain: Chain
    asset: Asset
    invoice_address: Annotated[
        Address, doc("Address to pay to. A mock: nobody holds its key, do not send real funds.")
    ]
    payment_uri: Annotated[
        str, doc("What the QR code says: EIP-681, for what is missing, or else for `due`.")
    ]
    due: TokenAmount
    settlement: Annotated[TokenAmount, doc("What the merchant receives.")]
    fee: Annotated[TokenAmount, doc("Service fee, a part of `due`.")]
    received: Annotated[TokenAmount, doc("What has arrived in the right asset, final or not.")]
    missing: Annotated[TokenAmount, doc("What is left of `due`.")]
    deposits: Annotated[list[CheckoutDeposit], doc("All that has arrived, in order.")]
    confirmations: Annotated[int, doc("Of the newest deposit; 0 while there is none.", ge=0)]
    confirmations_required: Annotated[int, doc("Confirmations until a deposit is final.", ge=1)]
    seconds_left: Annotated[
        float, doc("Seconds of virtual time until the payment window closes; 0 after.", ge=0)
    ]
    now: Annotated[Timestamp, doc("The time on the payment's clock.")]
    speed: Annotated[float, doc("The speed of that clock relative to real time; 0: it is frozen.", ge=0)]


def checkout(
    record: PaymentRecord, state: State, age: int, speed: float, chain: Chain, assets: Mapping[str, Asset]
) -> Checkout:
    """The checkout of the payment in `state`, `age` milliseconds after its creation, on a clock that runs at
    `speed`. `chain` is that of the payment, `assets` are those of the chain.
    """
    asset = assets[record.asset]
    due, received = int(record.due), state.received_pending + state.received_finalized
    missing = max(0, due - received)
    view = VIEWS[state.status]
    if state.status is PaymentStatus.PAYMENT_DETECTED and received != due:
        view = _TOO_MUCH if received > due else _PARTIAL if age < PAYMENT_WINDOW else _TIME_IS_UP
    others = [one.transfer.other_asset for one in state.deposits if one.transfer.other_asset]
    if others and state.status in (PaymentStatus.PAYMENT_DETECTED, PaymentStatus.PAYMENT_FINALIZED):
        view = View(  # it is rejected soon, and the payment goes to review
            "review",
            "A transfer in another asset arrived",
            f"{assets[others[0]].symbol} arrived. It does not pay this invoice. Do not send more now.",
            "The shop will look into it.",
        )
    deposits = []
    for transfer in (one.transfer for one in state.deposits):
        arrived = assets[transfer.other_asset or record.asset]
        late = "too late" if transfer.at >= PAYMENT_WINDOW else ""
        deposits.append(
            CheckoutDeposit(
                raw=str(transfer.amount),
                tokens=to_tokens(transfer.amount, arrived.decimals),
                symbol=arrived.symbol,
                note="another asset" if transfer.other_asset else late,
            )
        )
    address = identifiers.invoice_address(record.token)
    metadata = record.metadata or {}
    return_url, purchase = str(metadata.get("return_url")), metadata.get("checkout")
    shop, description = (
        text[:_MAX_TEXT] if isinstance(purchase, dict) and isinstance(text := purchase.get(name), str) else ""
        for name in ("shop", "description")
    )

    def quantity(raw: int) -> TokenAmount:
        return TokenAmount(raw=str(raw), tokens=to_tokens(raw, asset.decimals))

    return Checkout(
        payment_id=identifiers.PAYMENT_PREFIX + record.token,
        order_id=record.order_id,
        status=state.status,
        view=view.name,
        headline=view.headline,
        explanation=view.explanation,
        next=view.next,
        final=state.status in TERMINAL_STATUSES,
        return_url=return_url if _WEB_ADDRESS.fullmatch(return_url) else "",
        shop=shop,
        description=description,
        chain=chain,
        asset=asset,
        invoice_address=address,
        payment_uri=payment_uri(chain, asset, address, missing or due),
        due=quantity(due),
        settlement=quantity(due - int(record.fee)),
        fee=quantity(int(record.fee)),
        received=quantity(received),
        missing=quantity(missing),
        deposits=deposits,
        confirmations=state.deposits[-1].confirmations if state.deposits else 0,
        confirmations_required=CONFIRMATIONS_REQUIRED,
        seconds_left=max(0, PAYMENT_WINDOW - age) / 1000,
        now=to_rfc3339(record.created_at + age),
        speed=speed,
    )


def payment_uri(chain: Chain, asset: Asset, address: str, raw: int) -> str:
    """The EIP-681 request to pay `raw` raw units of `asset` to `address`."""
    if asset.contract_address is None:
        return f"ethereum:{address}@{chain.chain_id}?value={raw}"
    return f"ethereum:{asset.contract_address}@{chain.chain_id}/transfer?address={address}&uint256={raw}"
