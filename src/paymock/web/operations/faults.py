"""Fault injection: by the header of a request, or by the rules of its sandbox. See docs/faults.md."""

import asyncio
import math
import time
from contextlib import nullcontext, suppress
from email.utils import formatdate
from typing import Any

import msgspec
from msgspec.structs import replace

from paymock.app.faults import FaultInjection, RequestAttempt
from paymock.http.headers import idempotency_key, sent_once
from paymock.http.keys import REALM
from paymock.http.requests import ClientGone, Request
from paymock.http.responses import PHRASES, Response, error_response, refusal
from paymock.http.routing import Handler
from paymock.rules.errors import PaymockError
from paymock.rules.fault_rules import Decision
from paymock.rules.faults import FAULT_FORM, Fault, FaultKind, FaultTarget, fault_problem, parse_fault
from paymock.sandbox.sandboxes import RuleFound
from paymock.sandbox.scheduler import yield_turn
from paymock.schemas.public import CREATE_PAYMENT, PAYMENT_READS
from paymock.web.responses import OperationResponse, in_place_of, order_id_of

_UNKNOWN = "x_mock_unknown"  # as a member, and as a value

_GATEWAY_PAGE = (
    "<html>\r\n<head><title>{0}</title></head>\r\n<body>\r\n<center><h1>{0}</h1></center>\r\n"
    "<hr><center>gateway</center>\r\n</body>\r\n</html>\r\n"
)


async def inject_fault(faults: FaultInjection, request: Request, carry_out: Handler) -> Response:
    """Carry out a request below `/v1` with the fault of its header, or else of a rule of its sandbox. The
    response has the fault that was applied. Raises PaymockError.
    """
    sandbox, operation, is_read = request.sandbox, request.operation, request.method != "POST"
    response = None
    if b"x-mock-fault" not in request.headers:
        # A read changes nothing, and tells its order. A creation is tried, since few sandboxes have rules.
        condition = {} if is_read else {"unless_rule_for": operation}
        failure, has_rule = None, None if is_read else False  # None: it is looked up
        try:
            response = await carry_out(request, **condition)
        except RuleFound:
            has_rule = True
        except PaymockError as error:
            # A store that has not answered would take as long again.
            failure, has_rule = error, False if error.kind.code == "store_unavailable" else None
        if has_rule is None:
            is_known = response is not None and operation in PAYMENT_READS
            has_rule = await faults.has_rule_for(sandbox, operation, is_known=is_known)
        if not has_rule and failure is not None:
            raise failure
        if not has_rule and response is not None:
            return response
    elif is_read:
        with suppress(PaymockError):
            response = await carry_out(request)
    decision = await _decide(faults, request, response)
    return await _apply(faults, request, carry_out, decision, response)


async def _decide(faults: FaultInjection, request: Request, response: Response | None) -> Decision:
    header = sent_once(request, b"x-mock-fault", "invalid_fault")
    key = request.headers.get(b"idempotency-key")
    identity = key.decode("latin-1").strip() if key else f"{request.method} {request.path}"
    payment = response.payment if isinstance(response, OperationResponse) else None
    order_id, ahead = (payment.order_id, payment.ahead) if payment else (None, None)
    creation_key = None
    if request.operation == CREATE_PAYMENT:
        with suppress(PaymockError):
            creation_key = idempotency_key(request)
        with suppress(PaymockError):
            await request.json()
        order_id = order_id_of(request)
    target = FaultTarget(request.operation, order_id, request.params.get("payment_id"), ahead)
    attempt = RequestAttempt(request.sandbox, target, identity, header, creation_key)
    try:
        decision = await faults.decide(attempt)
    except PaymockError:
        own = parse_fault(header or "")
        if own is None or own.times:
            raise
        # The fault of a header needs no store.
        decision = Decision(target, fault=own)
    if header is not None:
        requested_fault(header)
    return decision


async def _apply(
    faults: FaultInjection, request: Request, carry_out: Handler, decision: Decision, done: Response | None
) -> Response:
    fault, target = decision.fault, decision.target
    if fault is None:
        return done or await carry_out(request)
    carried_out = (done or await _result(request, carry_out)) if fault.after else None
    if not fault.keeps_reply:
        shown = carried_out or Response(0)
        if fault.kind is FaultKind.STATUS:
            shown = error_response(injected_error(fault), request.id)
        if fault.html:  # as a gateway sends it
            page = _GATEWAY_PAGE.format(f"{shown.status} {PHRASES.get(shown.status, '')}".rstrip())
            shown = replace(shown, body=page.encode(), content_type="text/html")
        return in_place_of(carried_out, shown, target, fault)
    try:
        await _wait(faults, request, decision)
        if carried_out is None:
            faults.authenticate(request)  # its key may have been removed meanwhile
    except ClientGone:
        return in_place_of(carried_out, carried_out or Response(0), target, fault, lost=True)
    except PaymockError as error:
        return in_place_of(carried_out, refusal(error, request), target)
    reply = carried_out or await _result(request, carry_out)
    if fault.kind is FaultKind.EXTRA:
        await yield_turn()
        reply = _of_later_release(reply, fault.part)
    return replace(reply, fault=fault, lost=request.client is not None and request.client.has_left)


async def _wait(faults: FaultInjection, request: Request, decision: Decision) -> None:
    """Wait as the fault says. Raises ClientGone, if a rule holds the request; PaymockError."""
    fault, waiting = decision.fault, faults.waiting_request(request.owner, request.end)
    if fault is not None and fault.kind is FaultKind.HOLD:
        with waiting:
            held = faults.hold(request.sandbox, decision.rule_id)
            await request.unless_gone(held)
    elif fault is not None and fault.kind is FaultKind.DELAY:
        end = asyncio.get_running_loop().time() + fault.number / 1000
        with waiting if fault.number >= 1000 else nullcontext(), suppress(ClientGone):
            await request.unless_gone(faults.sleep_until(end))


async def _result(request: Request, carry_out: Handler) -> Response:
    try:
        return await carry_out(request)
    except PaymockError as error:
        return refusal(error, request)


def _of_later_release(response: Response, part: str) -> Response:
    """Return a reply with one more member in each object but `metadata`, which is the client's own; or with a
    value that no client knows in one `part` of its payment. Elsewhere, it is the true one.
    """

    def extended(value: Any) -> Any:
        if isinstance(value, list):
            return [extended(item) for item in value]
        if not isinstance(value, dict):
            return value
        members = {name: item if name == "metadata" else extended(item) for name, item in value.items()}
        return members | {_UNKNOWN: {}}

    if response.error is not None:
        return response
    reply = msgspec.json.decode(response.body)
    payments = [reply] if "attempts" in reply else []
    attempts = [one for one in reply.get("attempts") or reply.get("data", ()) if "instructions" in one]
    deposits = [deposit for attempt in attempts for deposit in attempt.get("deposits", ())]
    for place in {"status": payments, "attempt": attempts, "deposit": deposits}.get(part, ()):
        place["status"] = _UNKNOWN
    for attempt in attempts if part == "type" else ():
        del attempt["instructions"]["invoice_address"]
        attempt["instructions"] |= {"type": _UNKNOWN, _UNKNOWN: {}}
    return replace(response, body=msgspec.json.encode(reply if part else extended(reply)))


def requested_fault(header: str) -> Fault:
    """Return the fault that the header `X-Mock-Fault` asks for. Raises PaymockError `invalid_fault`."""
    fault = parse_fault(header)
    if fault is None or fault.kind is FaultKind.HOLD:
        problem = fault_problem(header) or f"must be {FAULT_FORM}"
        raise PaymockError("invalid_fault", f"X-Mock-Fault {problem}.".replace("?.", "?"))
    return fault


def injected_error(fault: Fault) -> PaymockError:
    outcome = "The request was carried out." if fault.after else "Nothing was stored."
    message = f"An injected fault, with the requested status. {outcome} Retry as your client should."
    wait = fault.retry_after
    if wait == "date":
        wait = formatdate(math.ceil(time.time() + 1), usegmt=True)
    headers = [("WWW-Authenticate", REALM)] if fault.number == 401 else ()
    asked = "" if wait == "none" else wait
    return PaymockError("injected_fault", message, status=fault.number, headers=headers, retry_after=asked)
