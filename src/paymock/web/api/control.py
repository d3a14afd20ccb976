"""The control API below `/_mock`. See docs/control-api.md."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from paymock.app import journal
from paymock.app.control_service import ControlService
from paymock.app.fault_rules import MAX_RULES
from paymock.app.findings import MAX_BYTES, MAX_FINDINGS
from paymock.app.journal import RequestFilter
from paymock.app.payment_lookup import PaymentFilter
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import PaymentStatus
from paymock.rules.tables import fault_table
from paymock.schemas import control as schemas
from paymock.schemas import json_decoding
from paymock.schemas.fields import MAX_ORDER_ID
from paymock.schemas.public import OPERATION_IDS, Payment
from paymock.schemas.scenarios import NAME_PATTERN, is_name
from paymock.web.api.operations import BODY_ERRORS, PAYMENT_ID, Operation, Query
from paymock.web.http.headers import check_json_body, idempotency_key
from paymock.web.http.requests import Request
from paymock.web.http.responses import REPLAYED, Response
from paymock.web.http.sse import event_stream

MAX_PAGE = 200
"""The most payments on a page."""

_INTEGER = re.compile("[0-9]{1,18}")
_NUMBER = re.compile(r"-?[0-9]+(\.[0-9]+)?([Ee][+-]?[0-9]+)?")
_encode = msgspec.json.Encoder().encode


async def get_clock(control: ControlService, request: Request) -> Response:
    return _ok(await control.clock(request.sandbox))


async def set_clock(control: ControlService, request: Request) -> Response:
    return _ok(await control.set_clock(request.sandbox, await _body(request)))


async def advance(control: ControlService, request: Request) -> Response:
    return _ok(await control.advance(request.sandbox, await _body(request)))


async def advance_payment(control: ControlService, request: Request) -> Response:
    payment_id = request.params["payment_id"]
    body = await _body(request)
    advance = control.advance_payment(request.sandbox, payment_id, body)
    waits = isinstance(body, dict) and body.get("until_observed")
    return _ok(await (request.unless_gone(advance) if waits else advance))


async def deposit(control: ControlService, request: Request) -> Response:
    key = idempotency_key(request) if b"idempotency-key" in request.headers else None
    body = await _body(request)
    fingerprint = json_decoding.fingerprint(request.method, request.path, body)
    payment, replayed = await control.deposit(
        request.sandbox, request.params["payment_id"], body, key, fingerprint
    )
    return _ok(payment, *([REPLAYED] if replayed else []))


async def list_scenarios(control: ControlService, request: Request) -> Response:
    return Response(200, control.scenario_list)


async def list_payments(control: ControlService, request: Request) -> Response:
    return _ok(await control.payments(request.sandbox, *payment_query(request)))


async def get_payment(control: ControlService, request: Request) -> Response:
    return _ok(await control.payment(request.sandbox, request.params["payment_id"]))


async def wait(control: ControlService, request: Request) -> Response:
    query = query_parameters(request, "status", "timeout")
    status = _choice(query, "status", [*PaymentStatus])
    payment_id = request.params["payment_id"]
    result = control.waits.payment(request.sandbox, payment_id, status, _timeout(query))
    return _ok(await request.unless_gone(result))


async def wait_for_order(control: ControlService, request: Request) -> Response:
    query = query_parameters(request, "order_id", "status", "timeout")
    order_id = _text(query, "order_id")
    if order_id is None:
        raise PaymockError("invalid_query", "order_id is required.")
    status = _choice(query, "status", [*PaymentStatus])
    result = control.waits.order(request.sandbox, order_id, status, _timeout(query))
    return _ok(await request.unless_gone(result))


async def wait_for_requests(control: ControlService, request: Request) -> Response:
    query = query_parameters(request, *RequestFilter._fields, "count", "after", "timeout")
    wanted = RequestFilter(
        _choice(query, "operation", [*OPERATION_IDS]),
        _text(query, "order_id"),
        _text(query, "payment_id"),
        _choice(query, "shown", [*PaymentStatus]),
    )
    count, after = integer_parameter(query, "count", schemas.MAX_COUNT, 1, minimum=1), _text(query, "after")
    result = control.waits.requests(request.sandbox, wanted, count, after, _timeout(query))
    return _ok(await request.unless_gone(result))


async def events(control: ControlService, request: Request) -> Response:
    query = query_parameters(request, "payment_id")
    return await event_stream(control.feed.follow(request.sandbox, query.get("payment_id")))


async def set_next(control: ControlService, request: Request) -> Response:
    return _ok(await control.overrides.add(request.sandbox, await _body(request)))


async def get_next(control: ControlService, request: Request) -> Response:
    return _ok(await control.overrides.pending(request.sandbox))


async def clear_next(control: ControlService, request: Request) -> Response:
    query = query_parameters(request, "order_id")
    await control.overrides.clear(request.sandbox, _text(query, "order_id"))
    return Response(204, content_type=None)


async def add_fault(control: ControlService, request: Request) -> Response:
    rule = await control.fault_rules.add(request.sandbox, await _body(request))
    return Response(201, _encode(rule))


async def list_faults(control: ControlService, request: Request) -> Response:
    return _ok(await control.fault_rules.list(request.sandbox))


async def delete_fault(control: ControlService, request: Request) -> Response:
    await control.fault_rules.delete(request.sandbox, request.params["fault_id"])
    return Response(204, content_type=None)


async def clear_faults(control: ControlService, request: Request) -> Response:
    await control.fault_rules.clear(request.sandbox)
    return Response(204, content_type=None)


async def list_requests(control: ControlService, request: Request) -> Response:
    query = query_parameters(request, "limit", "payment_id")
    limit = integer_parameter(query, "limit", journal.LENGTH, 100, minimum=1)
    return _ok(await control.journal.newest(request.sandbox, limit, query.get("payment_id")))


async def list_findings(control: ControlService, request: Request) -> Response:
    return _ok(await control.findings.list(request.sandbox))


async def add_finding(control: ControlService, request: Request) -> Response:
    return Response(201, _encode(await control.findings.add(request.sandbox, await _body(request))))


async def clear_findings(control: ControlService, request: Request) -> Response:
    await control.findings.clear(request.sandbox)
    return Response(204, content_type=None)


async def clear_requests(control: ControlService, request: Request) -> Response:
    await control.journal.clear(request.sandbox)
    return Response(204, content_type=None)


async def reset(control: ControlService, request: Request) -> Response:
    await control.reset(request.sandbox)
    return Response(204, content_type=None)


def _ok(reply: Any, *headers: tuple[str, str]) -> Response:
    return Response(200, _encode(reply), headers=headers)


async def _body(request: Request) -> Any:
    check_json_body(request)
    return await request.json()


def query_parameters(request: Request, *allowed: str) -> dict[str, str]:
    """Return the query, which may have the names `allowed`. Raises PaymockError `invalid_query`."""
    try:
        return request.query(allowed)
    except ValueError as error:
        raise PaymockError("invalid_query", f"{error}.") from None


def payment_query(request: Request) -> tuple[PaymentFilter, int, int | None]:
    """Return which payments a request lists, at most how many, and after which cursor.

    Raises PaymockError `invalid_query`.
    """
    query = query_parameters(request, "limit", "cursor", *PaymentFilter._fields)
    cursor = integer_parameter(query, "cursor", 10**18) if "cursor" in query else None
    payment_filter = PaymentFilter(
        _choice(query, "status", [*PaymentStatus]),
        _scenario(query),
        query.get("order_id"),
        _search(query),
    )
    return payment_filter, integer_parameter(query, "limit", MAX_PAGE, 50, minimum=1), cursor


def _timeout(query: Mapping[str, str]) -> float:
    text = query.get("timeout", str(schemas.DEFAULT_WAIT))
    if not _NUMBER.fullmatch(text) or not 0 <= float(text) <= schemas.MAX_WAIT:
        raise PaymockError(
            "invalid_query", f"timeout must be a number of seconds from 0 to {schemas.MAX_WAIT}."
        )
    return float(text)


def integer_parameter(
    query: Mapping[str, str], name: str, maximum: int, default: int = 0, *, minimum: int = 0
) -> int:
    """Return an integer of a query. Raises PaymockError `invalid_query`."""
    value = query.get(name, str(default))
    if not _INTEGER.fullmatch(value) or not minimum <= int(value) <= maximum:
        raise PaymockError("invalid_query", f"{name} must be an integer from {minimum} to {maximum}.")
    return int(value)


def _text(query: Mapping[str, str], name: str) -> str | None:
    if query.get(name) == "":
        raise PaymockError("invalid_query", f"{name} must not be empty.")
    return query.get(name)


def _choice(query: Mapping[str, str], name: str, allowed: list[str]) -> str | None:
    value = query.get(name)
    if value is not None and value not in allowed:
        raise PaymockError("invalid_query", f"{name} must be one of {', '.join(allowed)}.")
    return value


def _scenario(query: Mapping[str, str]) -> str | None:
    """Return the name to look for: a scenario, or a course, of which the server has no list."""
    name = query.get("scenario")
    if name is not None and not is_name(name):
        raise PaymockError("invalid_query", "scenario must be a name of 1 to 64 of a-z 0-9 _.")
    return name


def _search(query: Mapping[str, str]) -> str | None:
    text = _text(query, "search")
    if text is not None and len(text) > MAX_ORDER_ID:
        raise PaymockError("invalid_query", f"search must have at most {MAX_ORDER_ID} characters.")
    return text


_STATUS = {"$ref": "#/components/schemas/PaymentStatus"}
_TEXT = {"type": "string", "minLength": 1}
_OPERATION = {"$ref": "#/components/schemas/OperationId"}
_SCENARIO = {"type": "string", "pattern": NAME_PATTERN}
_TIMEOUT = Query(
    "timeout",
    f"Real seconds, at most {schemas.MAX_WAIT}.",
    {"type": "number", "minimum": 0, "maximum": schemas.MAX_WAIT, "default": schemas.DEFAULT_WAIT},
)

OPERATIONS = (
    Operation(
        method="GET",
        path="/_mock/clock",
        handler=get_clock,
        operation_id="getClock",
        tag="Time",
        summary="Read the clock",
        description="The virtual clock of this sandbox. Every time that `/v1` shows is read from it.",
        reply=schemas.VirtualClock,
    ),
    Operation(
        method="PUT",
        path="/_mock/clock",
        handler=set_clock,
        operation_id="setClock",
        tag="Time",
        summary="Change the speed",
        description="Lets virtual time run `speed` times as fast as real time, from now on. Speed 0 freezes "
        "it. Time never jumps and never runs backwards.",
        request=schemas.SetClock,
        reply=schemas.VirtualClock,
        errors=BODY_ERRORS,
    ),
    Operation(
        method="POST",
        path="/_mock/clock/advance",
        handler=advance,
        operation_id="advanceClock",
        tag="Time",
        summary="Move the sandbox ahead",
        description="Moves the sandbox ahead at once, frozen or not. When the reply comes, every read shows "
        "the new time.",
        request=schemas.Advance,
        reply=schemas.VirtualClock,
        errors=BODY_ERRORS,
    ),
    Operation(
        method="POST",
        path="/_mock/payments/{payment_id}/advance",
        handler=advance_payment,
        operation_id="advancePayment",
        tag="Time",
        summary="Move one payment ahead",
        description="Moves one payment ahead of its sandbox: by `seconds`, or `to` a status, to the `next` "
        "change, or to the `end` of its timeline. 409 when the payment cannot reach that.\n\n"
        "With `until_observed`, it goes to each visible change in turn and stays there until the application "
        "has had a reply to `getPayment` or `listAttempts` that shows it, with no fault but a delay: so a "
        "poller sees every status in order, if the clock stands still. After `timeout` real seconds, the "
        "payment stands at the change that nobody has read.",
        request=(schemas.AdvanceBy, schemas.AdvanceTo),
        reply=(Payment, schemas.ObservedPayment),
        errors=("payment_not_found", "status_unreachable", *BODY_ERRORS, "capacity_exceeded"),
        parameters=PAYMENT_ID,
    ),
    Operation(
        method="POST",
        path="/_mock/payments/{payment_id}/deposits",
        handler=deposit,
        operation_id="makeDeposit",
        tag="Payments",
        summary="Simulate a deposit",
        description="A transfer is observed now, beside those of the scenario, and follows the same rules: "
        "two halves fund a payment, too much goes to review, another asset is rejected, after the"
        " window it is late. An `Idempotency-Key` is honored when sent.",
        request=schemas.MakeDeposit,
        reply=Payment,
        idempotency="optional",
        errors=(
            "payment_not_found",
            "idempotency_key_missing",
            "idempotency_key_invalid",
            "idempotency_key_reused_with_different_payload",
            "capacity_exceeded",
            *BODY_ERRORS,
        ),
        reply_headers=("Idempotent-Replayed",),
        parameters=PAYMENT_ID,
    ),
    Operation(
        method="GET",
        path="/_mock/payments",
        handler=list_payments,
        operation_id="listPayments",
        tag="Payments",
        summary="List payments",
        description="The payments of this sandbox, newest first. `next_cursor` leads to the next page.",
        reply=schemas.PaymentPage,
        errors=("invalid_query",),
        query=(
            Query(
                "limit",
                f"How many, 1 to {MAX_PAGE}.",
                {"type": "integer", "minimum": 1, "maximum": MAX_PAGE, "default": 50},
            ),
            Query(
                "cursor",
                "The `next_cursor` of the previous page.",
                {"type": "string", "pattern": "^[0-9]{1,18}$"},
            ),
            Query("status", "Only payments with this status.", _STATUS),
            Query("scenario", "Only payments of this scenario, or of the course with this name.", _SCENARIO),
            Query("order_id", "Only payments of this order.", {"type": "string"}),
            Query(
                "search",
                "Only payments whose `order_id` or `id` begins with this text.",
                {**_TEXT, "maxLength": MAX_ORDER_ID},
            ),
        ),
    ),
    Operation(
        method="GET",
        path="/_mock/payments/{payment_id}",
        handler=get_payment,
        operation_id="getPaymentDetail",
        tag="Payments",
        summary="Read a payment with its timeline",
        description="The payment, its scenario, the time on its own clock, and its timeline: every change, "
        "past and future.",
        reply=schemas.PaymentDetail,
        errors=("payment_not_found",),
        parameters=PAYMENT_ID,
    ),
    Operation(
        method="GET",
        path="/_mock/payments/{payment_id}/wait",
        handler=wait,
        operation_id="waitForPayment",
        tag="Time",
        summary="Wait for a payment",
        description="Answers as soon as the payment has reached `status` or, without one, at its next change;"
        " at once with `reached: false` when that can no longer come; after `timeout` real "
        "seconds at the latest. The server knows when the change comes, and wakes early when "
        "somebody moves time or makes a deposit.",
        reply=schemas.WaitResult,
        errors=("payment_not_found", "invalid_query", "capacity_exceeded"),
        parameters=PAYMENT_ID,
        query=(
            Query("status", "What to wait for; without it, the next change.", _STATUS),
            _TIMEOUT,
        ),
    ),
    Operation(
        method="GET",
        path="/_mock/wait",
        handler=wait_for_order,
        operation_id="waitForOrder",
        tag="Time",
        summary="Wait for a payment of an order",
        description="Answers as soon as the newest payment of the order, which need not exist yet, has "
        "reached `status` or, without one, as soon as it exists; at once with `reached: false` when that "
        "payment can no longer reach it; after `timeout` real seconds at the latest.",
        reply=schemas.OrderWaitResult,
        errors=("invalid_query", "capacity_exceeded"),
        query=(
            Query("order_id", "The order to wait for.", _TEXT, required=True),
            Query("status", "What to wait for; without it, the payment.", _STATUS),
            _TIMEOUT,
        ),
    ),
    Operation(
        method="GET",
        path="/_mock/requests/wait",
        handler=wait_for_requests,
        operation_id="waitForRequests",
        tag="Time",
        summary="Wait for requests of the application",
        description="Answers as soon as the journal has `count` requests that match all given parameters, of "
        "those `after` a request; after `timeout` real seconds at the latest. Requests that got a fault "
        "count, too, but they show no status. A request `after` which the journal no longer has counts as "
        "passed.",
        reply=schemas.RequestWaitResult,
        errors=("invalid_query", "capacity_exceeded"),
        query=(
            Query("operation", "Only those of this operation.", _OPERATION),
            Query("order_id", "Only those about payments of this order.", _TEXT),
            Query("payment_id", "Only those about this payment.", _TEXT),
            Query("shown", "Only those whose reply showed a payment with this status.", _STATUS),
            Query(
                "count",
                f"How many, 1 to {schemas.MAX_COUNT:,}.",
                {"type": "integer", "minimum": 1, "maximum": schemas.MAX_COUNT, "default": 1},
            ),
            Query("after", "Only those after the request with this `request_id`.", _TEXT),
            _TIMEOUT,
        ),
    ),
    Operation(
        method="POST",
        path="/_mock/next",
        handler=set_next,
        operation_id="setNext",
        tag="Overrides and faults",
        summary="Override the next creations",
        description="""The next `times` creations that carry neither `X-Mock-Scenario` nor `X-Mock-Fault` take
this scenario and this fault: for applications that cannot add headers. With `times: null` it is permanent
until a reset. In place of a scenario, a `course` describes one of your own; the rules compute where it leads.
Scenarios and faults wait in separate queues, and are taken in the order in which they were added, a
permanent one last. A refused request takes none; one that a fault refuses takes the fault and leaves the
scenario to the retry. With an `order_id`, they are for the creations of that order only, which take the first
ones for them; so tests of several orders run side by side.

The fault has the form of `X-Mock-Fault`; see `POST /_mock/faults`.""",
        request=(schemas.ScenarioOverride, schemas.CourseOverride, schemas.FaultOverride),
        reply=schemas.PendingOverrideList,
        errors=(*BODY_ERRORS, "capacity_exceeded"),
    ),
    Operation(
        method="GET",
        path="/_mock/next",
        handler=get_next,
        operation_id="getNext",
        tag="Overrides and faults",
        summary="Read what is pending",
        description="The scenarios, then the faults, that the next creations take.",
        reply=schemas.PendingOverrideList,
    ),
    Operation(
        method="DELETE",
        path="/_mock/next",
        handler=clear_next,
        operation_id="clearNext",
        tag="Overrides and faults",
        summary="Clear what is pending",
        description="The next creations take what their own headers say.",
        reply=None,
        status=204,
        errors=("invalid_query",),
        query=(Query("order_id", "Only what is pending for the creations of this order.", _TEXT),),
    ),
    Operation(
        method="POST",
        path="/_mock/faults",
        handler=add_fault,
        operation_id="addFault",
        tag="Overrides and faults",
        summary="Add a fault rule",
        description=f"""Injects a fault into the requests that the rule selects by `operation`, `order_id` and
`payment_id`: into `times` of them, once `skip` have passed. So the polls of an unmodified application can
fail. A sandbox has at most {MAX_RULES} rules.

A rule counts each request that it selects in `seen`, whatever fault that gets. A request gets the fault of
the first rule that is due, and that rule counts it in `applied`. The header `X-Mock-Fault` has precedence
over rules, rules over the faults of `POST /_mock/next`. A reset deletes rules.

A fault is `KIND[; before|after][; html][; times=N]`, in a rule, in the header and in `POST /_mock/next`:

{fault_table()}

With `; times=2`, the fault applies to the first two attempts only: of an idempotency key or, without one, of
a method and path.""",
        request=schemas.AddFault,
        reply=schemas.FaultRule,
        status=201,
        errors=(*BODY_ERRORS, "capacity_exceeded"),
    ),
    Operation(
        method="GET",
        path="/_mock/faults",
        handler=list_faults,
        operation_id="listFaults",
        tag="Overrides and faults",
        summary="List fault rules",
        description="The fault rules in their order, with their counts.",
        reply=schemas.FaultRuleList,
    ),
    Operation(
        method="DELETE",
        path="/_mock/faults/{fault_id}",
        handler=delete_fault,
        operation_id="deleteFault",
        tag="Overrides and faults",
        summary="Delete a fault rule",
        description="The rule applies to no further request.",
        reply=None,
        status=204,
        errors=("not_found",),
        parameters={"fault_id": "The `id` of the rule."},
    ),
    Operation(
        method="DELETE",
        path="/_mock/faults",
        handler=clear_faults,
        operation_id="clearFaults",
        tag="Overrides and faults",
        summary="Delete all fault rules",
        description="The requests get the faults of their headers and of overrides only.",
        reply=None,
        status=204,
    ),
    Operation(
        method="GET",
        path="/_mock/scenarios",
        handler=list_scenarios,
        operation_id="listScenarios",
        tag="Overrides and faults",
        summary="List the scenarios",
        description="The scenarios of this server, each with what it leads to for a `due` of 1,000,000.",
        reply=schemas.ScenarioList,
    ),
    Operation(
        method="GET",
        path="/_mock/requests",
        handler=list_requests,
        operation_id="listRequests",
        tag="Sandbox",
        summary="Read the journal",
        description=f"The last {journal.LENGTH:,} requests below `/v1` of this sandbox, newest first, "
        "without keys, headers and bodies.",
        reply=schemas.Journal,
        errors=("invalid_query",),
        query=(
            Query("payment_id", "Only those about this payment.", {"type": "string"}),
            Query(
                "limit",
                f"How many, 1 to {journal.LENGTH}.",
                {"type": "integer", "minimum": 1, "maximum": journal.LENGTH, "default": 100},
            ),
        ),
    ),
    Operation(
        method="DELETE",
        path="/_mock/requests",
        handler=clear_requests,
        operation_id="forgetRequests",
        tag="Sandbox",
        summary="Empty the journal",
        description="Deletes the requests in the journal.",
        reply=None,
        status=204,
    ),
    Operation(
        method="POST",
        path="/_mock/findings",
        handler=add_finding,
        operation_id="addFinding",
        tag="Sandbox",
        summary="Add a finding",
        description="For `paymock verify`: the dashboard has a page for each finding. A sandbox keeps the "
        f"last {MAX_FINDINGS}, of {MAX_BYTES // 1024} KiB in all.",
        request=schemas.AddFinding,
        reply=schemas.Finding,
        status=201,
        errors=BODY_ERRORS,
    ),
    Operation(
        method="GET",
        path="/_mock/findings",
        handler=list_findings,
        operation_id="listFindings",
        tag="Sandbox",
        summary="List the findings",
        description="What `paymock verify` has found in this sandbox, newest first.",
        reply=schemas.FindingList,
    ),
    Operation(
        method="DELETE",
        path="/_mock/findings",
        handler=clear_findings,
        operation_id="clearFindings",
        tag="Sandbox",
        summary="Delete the findings",
        description="Deletes all findings.",
        reply=None,
        status=204,
    ),
    Operation(
        method="POST",
        path="/_mock/reset",
        handler=reset,
        operation_id="reset",
        tag="Sandbox",
        summary="Reset the sandbox",
        description="Deletes payments, idempotency keys, webhook endpoints, overrides, fault rules, journal "
        "and clock of this sandbox, and of no other.",
        reply=None,
        status=204,
    ),
)
