"""The JSON of the reference model: all that the rules determine, so no ids, addresses, hashes and words."""

from datetime import UTC, datetime, timedelta

from tests.model.reference_model import REQUIRED, SECOND, WINDOW, Deposit, Json, Payment

UNDETERMINED = {"id", "invoice_address", "from_address", "tx_hash", "event", "before", "secret"}
"""Members of the server's replies that the model leaves out."""


def rfc3339(at: int) -> str:
    """Decisions, "Times": RFC 3339, UTC, milliseconds."""
    moment = datetime(1970, 1, 1, tzinfo=UTC) + timedelta(milliseconds=at)
    return moment.isoformat(timespec="milliseconds").replace("+00:00", "Z")


def payment_view(payment: Payment) -> Json:
    """Decisions, "Optional" and "`updated_at`": the last visible change."""
    return {
        "status": payment.status,
        "refund_to": None,
        "metadata": {},
        "expires_at": rfc3339(payment.created + 30 * 60 * SECOND),
        **payment.body,
        "created_at": rfc3339(payment.created),
        "updated_at": rfc3339(payment.timeline[-1].at),
        "attempts": [_attempt(payment)],
    }


def details_view(payment: Payment, sandbox_now: int) -> Json:
    """The payment with its timeline, past and future, and how far it is ahead of its sandbox:
    docs/control-api.md, "Payment details".
    """
    return {
        "payment": payment_view(payment),
        "scenario": payment.name,
        "decimals": 18,
        "now": rfc3339(payment.now),
        "ahead_seconds": (payment.now - sandbox_now) / SECOND,
        "window_seconds": WINDOW / SECOND,
        "timeline": [
            {
                "at": rfc3339(change.at),
                "offset_seconds": (change.at - payment.created) / SECOND,
                "status": change.status,
                "reached": change.at <= payment.now,
                "deposit": change.deposit,
                "confirmations": change.confirmations,
                "deposit_status": change.deposit_status,
            }
            for change in (*payment.timeline, *payment.ahead())
        ],
    }


def _attempt(payment: Payment) -> Json:
    """Spec, "Attempt object": `funding` and `deposits` once a transfer is observed."""
    amounts = {"due": payment.due, "settlement": payment.due - payment.fee, "fee": payment.fee}
    instructions = {
        "type": "evm_invoice_address",
        **payment.body["pay_with"][0],
        "amounts": {name: str(amount) for name, amount in amounts.items()},
    }
    attempt = {"status": payment.attempt_status, "instructions": instructions}
    if payment.deposits:
        attempt["funding"] = _funding(payment)
        chain = payment.body["receive"]["chain"]
        attempt["deposits"] = [_deposit(deposit, chain) for deposit in payment.deposits]
    return attempt


def _funding(payment: Payment) -> Json:
    """Spec, "Funding object"; decisions, "Other asset": not in `funding`."""
    received = sum(deposit.amount for deposit in payment.deposits if deposit.matches)
    funding = {
        "amount_received_pending": received - payment.finalized,
        "amount_received_finalized": payment.finalized,
    }
    if payment.finalized > payment.due:
        funding["overpaid_amount"] = payment.finalized - payment.due
    return {name: str(amount) for name, amount in funding.items()}


def _deposit(deposit: Deposit, chain: str) -> Json:
    """Spec, "Deposit object"."""
    return {
        "status": deposit.status,
        "confirmations": deposit.confirmations,
        "confirmations_required": REQUIRED,
        "chain": chain,
        "asset": deposit.asset,
        "amount": str(deposit.amount),
        "observed_at": rfc3339(deposit.observed_at),
    }
