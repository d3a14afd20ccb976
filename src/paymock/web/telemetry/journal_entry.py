"""Journal entries of requests, without secrets."""

from collections.abc import Callable
from functools import partial
from typing import Literal

import msgspec

from paymock.app.journal import StoredEntry, encode_entry
from paymock.http.requests import Request
from paymock.http.responses import JSON, Response
from paymock.payments.timelines import RenderedPayment
from paymock.rules.identifiers import PAYMENT_PREFIX, parse_token
from paymock.rules.times import to_rfc3339
from paymock.sandbox.log_buffer import Entry
from paymock.schemas.fields import MAX_ORDER_ID
from paymock.schemas.public import ErrorDetail, ErrorEnvelope, Problem
from paymock.web.telemetry.access_log import RequestLog

MAX_DETAILS = 5
"""How many problems of a refused body an entry holds."""

_FETCH_SITES = (b"cross-site", b"same-origin", b"same-site", b"none")
_CONFLICT = "idempotency_key_reused_with_different_payload"


def entry_for(
    request: Request,
    response: Response,
    request_id: str,
    now: int,
    virtual: int,
    seconds: float,
    log: RequestLog,
) -> Entry:
    """Return what encodes the journal entry of a request that was answered within `seconds`, or whose reply
    was dropped. It does not hold the request, nor its API key.

    `now` and the `virtual` time are in milliseconds since the epoch. Path and messages are masked as in the
    `log`.
    """
    return partial(
        _encoded_entry,
        response,
        request.method,
        request.path,
        request.operation,
        request.params.get("payment_id"),
        order_id_of(request),
        request.headers.get(b"sec-fetch-site", b""),
        request_id,
        now,
        virtual,
        seconds,
        log,
    )


def order_id_of(request: Request) -> str | None:
    """The order that the body of a request names, if that has been decoded."""
    body = request.body.decoded
    order_id = body.get("order_id") if isinstance(body, dict) else None
    return order_id if isinstance(order_id, str) and len(order_id) <= MAX_ORDER_ID else None


def _encoded_entry(
    response: Response,
    method: str,
    path: str,
    operation: str,
    payment_id: str | None,
    order_id: str | None,
    fetch_site: bytes,
    request_id: str,
    now: int,
    virtual: int,
    seconds: float,
    log: RequestLog,
) -> bytes:
    """Encode the entry of a request with this operation, of these ids in its path and in its body."""
    carried_out, fault, shown = response.carried_out or response, response.fault, response.payment
    if response.lost or method == "HEAD" or (fault and not fault.keeps_reply):
        shown = None  # the client has not seen it
    outcome: Literal["new", "replayed", "conflict"] | None = None
    refusal = None
    if carried_out.status == 201:
        outcome = "replayed" if carried_out.replayed else "new"
    elif response.error:
        outcome = "conflict" if carried_out.error == _CONFLICT else None
        if response.content_type == JSON:
            refusal = msgspec.json.decode(response.body, type=ErrorEnvelope).error
    payment: RenderedPayment | None = carried_out.payment
    payment_id = payment_id or (payment.id if payment else None)
    if payment_id and refusal and not parse_token(payment_id, PAYMENT_PREFIX):
        payment_id = None
    target = response.target
    order_id = payment.order_id if payment else (target and target.order_id) or order_id
    ahead = payment.ahead if payment else target and target.ahead
    entry = StoredEntry(
        to_rfc3339(now),
        log.masked(method),
        log.masked(path),
        0 if response.dropped else response.status,
        response.error,
        log.without_secrets(refusal.message) if refusal else None,
        _masked_details(refusal, log.without_secrets) if refusal else [],
        payment_id,
        outcome,
        request_id,
        int(seconds * 1_000_000) / 1000,
        operation or None,
        log.masked_order(order_id) if order_id else None,
        shown.status if shown else None,
        fault.text if fault else None,
        shown.at / 1000 if shown else None,
        to_rfc3339(virtual),
        fetch_site.decode() if fetch_site in _FETCH_SITES else None,
        None if ahead is None else ahead / 1000,
    )
    return encode_entry(entry)


def _masked_details(refusal: ErrorDetail, mask: Callable[[str], str]) -> list[Problem]:
    details = (refusal.details or [])[:MAX_DETAILS]
    return [Problem(field=mask(problem.field), message=mask(problem.message)) for problem in details]
