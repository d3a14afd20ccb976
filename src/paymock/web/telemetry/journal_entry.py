"""Journal entries of requests, without secrets."""

from collections.abc import Callable
from typing import Literal

import msgspec

from paymock.app.journal import StoredEntry
from paymock.http.requests import Request
from paymock.http.responses import JSON, Response
from paymock.payments.timelines import RenderedPayment
from paymock.rules.faults import FaultKind
from paymock.rules.identifiers import PAYMENT_PREFIX, parse_token
from paymock.rules.times import to_rfc3339
from paymock.schemas.public import ErrorDetail, ErrorEnvelope, Problem
from paymock.web.telemetry.access_log import RequestLog

MAX_DETAILS = 5
"""How many problems of a refused body an entry holds."""

_CONFLICT = "idempotency_key_reused_with_different_payload"


def entry_for(
    request: Request,
    response: Response,
    request_id: str,
    now: int,
    virtual: int,
    seconds: float,
    log: RequestLog,
) -> StoredEntry:
    """Return the journal entry of a request that was answered within `seconds`, or whose reply was dropped.

    `now` and the `virtual` time are in milliseconds since the epoch. Path and messages are masked as in the
    `log`.
    """
    carried_out = response.carried_out or response
    outcome: Literal["new", "replayed", "conflict"] | None = None
    refusal = None
    if carried_out.status == 201:
        outcome = "replayed" if carried_out.replayed else "new"
    elif response.error:
        outcome = "conflict" if carried_out.error == _CONFLICT else None
        if response.content_type == JSON:
            refusal = msgspec.json.decode(response.body, type=ErrorEnvelope).error
    payment = carried_out.payment
    payment_id = request.params.get("payment_id") or (payment.id if payment else None)
    if payment_id and refusal and not parse_token(payment_id, PAYMENT_PREFIX):
        payment_id = None
    order_id = payment.order_id if payment else response.order_id or request.order_id
    shown = _shown(request, response)
    return StoredEntry(  # by position, which takes a quarter of the time: this is done for every request
        to_rfc3339(now),
        log.masked(request.method),
        log.masked(request.path),
        0 if response.dropped else response.status,
        response.error,
        log.without_secrets(refusal.message) if refusal else None,
        _masked_details(refusal, log.without_secrets) if refusal else [],
        payment_id,
        outcome,
        request_id,
        int(seconds * 1_000_000) / 1000,
        request.operation or None,
        log.masked_order(order_id) if order_id else None,
        shown.status if shown else None,
        response.fault.text if response.fault else None,
        shown.at / 1000 if shown else None,
        to_rfc3339(virtual),
    )


def _shown(request: Request, response: Response) -> RenderedPayment | None:
    """Return the payment that the client has seen."""
    fault = response.fault
    if response.lost or request.method == "HEAD" or (fault and fault.kind is not FaultKind.DELAY):
        return None
    return response.payment


def _masked_details(refusal: ErrorDetail, mask: Callable[[str], str]) -> list[Problem]:
    details = (refusal.details or [])[:MAX_DETAILS]
    return [Problem(field=mask(problem.field), message=mask(problem.message)) for problem in details]
