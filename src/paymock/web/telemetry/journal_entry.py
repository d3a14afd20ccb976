"""The entry of a request in the journal."""

from paymock.app.journal import Journal, StoredEntry, encode_entry
from paymock.rules.times import to_rfc3339
from paymock.schemas.public import CREATE_PAYMENT, Problem
from paymock.web.responses import OperationResponse
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.exchange import Exchange

MAX_DETAILS = 5
"""How many problems of a refused body an entry holds."""

_METHODS = ("GET", "POST")  # which need no masking
_FETCH_SITES = (b"cross-site", b"same-origin", b"same-site", b"none")


def encoded_entry(exchange: Exchange, log: RequestLog, journal: Journal, sandbox: str) -> bytes:
    """Encode the entry of a request. Its path, order and messages are masked as in the `log`."""
    response, carried_out, method = exchange.response, exchange.carried_out, exchange.method
    payment = carried_out.payment if isinstance(carried_out, OperationResponse) else None
    is_usual = carried_out is response and method != "HEAD" and not (response.fault or response.lost)
    seen = payment if is_usual else exchange.seen
    refusal = exchange.refusal if response.error else None
    payment_id, order_id, lead = exchange.subject(payment, refusal)
    order_id = log.masked_order(order_id) if order_id else None
    problems, mask = refusal.details[:MAX_DETAILS] if refusal and refusal.details else (), log.without_secrets
    key, key_hash = None, b""
    if order_id and exchange.idempotency_key and exchange.operation == CREATE_PAYMENT:
        key, key_hash = journal.key_of(sandbox, order_id, exchange.idempotency_key)
    return encode_entry(
        StoredEntry(
            at=to_rfc3339(exchange.answered_at),
            method=method if method in _METHODS else log.masked(method),
            path=log.masked(exchange.path),
            status=0 if response.dropped else response.status,
            error=response.error,
            message=mask(refusal.message) if refusal else None,
            details=[Problem(field=mask(one.field), message=mask(one.message)) for one in problems],
            payment_id=payment_id,
            idempotency=None if method == "GET" else exchange.idempotency,
            request_id=exchange.id,
            duration_ms=int(exchange.seconds * 1_000_000) / 1000,
            operation=exchange.operation or None,
            order_id=order_id,
            shown=seen.status if seen else None,
            fault=response.fault and response.fault.text,
            shown_offset_seconds=seen.at / 1000 if seen else None,
            virtual_at=to_rfc3339(exchange.clock.at(exchange.answered_at)),
            fetch_site=exchange.fetch_site.decode() if exchange.fetch_site in _FETCH_SITES else None,
            payment_ahead_seconds=None if lead is None else lead / 1000,
            key=key,
            differs=[*map(mask, carried_out.differs)] if carried_out.differs else [],
            key_hash=key_hash,
        )
    )
