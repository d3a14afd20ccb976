"""The control API below `/_mock`, one row for each call. See docs/control-api.md."""

from paymock.app.control import ControlService
from paymock.app.faults import MAX_RULES, FaultRules
from paymock.app.journal import Journal
from paymock.app.overrides import Overrides
from paymock.app.revisions import Revisions
from paymock.app.waits import Waits
from paymock.cache import JOURNAL_LENGTH
from paymock.schemas import control as schemas
from paymock.schemas.public import Payment
from paymock.web.operations.operations import Operation, ServiceOperation

OPERATIONS: tuple[Operation, ...] = (
    ServiceOperation(
        route="GET /_mock/clock",
        call=Revisions.clock,
        operation_id="getClock",
        tag="Time",
        summary="Read the clock",
        description="The virtual clock of this sandbox, from which all times in `/v1` are. A page that polls "
        "this refreshes when `revision` differs, or `next_change_at` has passed.",
        reply=schemas.PolledClock,
    ),
    ServiceOperation(
        route="PUT /_mock/clock",
        call=ControlService.set_clock,
        operation_id="setClock",
        tag="Time",
        summary="Change the speed, or set the time",
        description="Makes virtual time run `speed` times as fast as real time, from now on. Speed 0 freezes "
        "it. Time never jumps or runs backwards, unless `now` sets it, which is possible only while the "
        "sandbox has no payments and no webhook endpoints.",
        request=schemas.SetClock,
        reply=schemas.VirtualClock,
        errors=("sandbox_not_empty",),
    ),
    ServiceOperation(
        route="POST /_mock/clock/advance",
        call=ControlService.advance,
        operation_id="advanceClock",
        tag="Time",
        summary="Advance the sandbox",
        description="Advances the sandbox at once, frozen or not. When the reply arrives, every read shows "
        "the new time.",
        request=schemas.Advance,
        reply=schemas.VirtualClock,
    ),
    ServiceOperation(
        route="POST /_mock/payments/{payment_id}/advance",
        call=ControlService.advance_payment,
        operation_id="advancePayment",
        tag="Time",
        summary="Advance one payment",
        description="Advances one payment ahead of its sandbox: by `seconds`, or `to` a status, the `next` "
        "change, or the `end` of its timeline. 409 if the payment cannot reach that.\n\n"
        "With `until_observed`, it goes to each visible change in turn and stays there until the application "
        "has had a reply to `getPayment` or `listAttempts` that shows it, with no fault except a delay. So a "
        "poller sees every status in order, if the clock is frozen. After `timeout` real seconds, the "
        "payment stays at the change that the application has not read.",
        request=schemas.AdvancePayment,
        reply=(Payment, schemas.ObservedPayment),
        errors=("status_unreachable", "capacity_exceeded"),
    ),
    ServiceOperation(
        route="POST /_mock/payments/{payment_id}/deposits",
        call=ControlService.deposit,
        operation_id="makeDeposit",
        tag="Payments",
        summary="Simulate a deposit",
        description="A transfer is observed at once, in addition to those of the scenario. The same rules "
        "apply: two halves fund a payment, too much leads to a review, another asset is rejected, and after "
        "the window it is late. `Idempotency-Key` is optional.",
        request=schemas.MakeDeposit,
        reply=Payment,
        idempotency="optional",
        errors=("capacity_exceeded",),
        reply_headers=("Idempotent-Replayed",),
    ),
    ServiceOperation(
        route="GET /_mock/payments",
        call=ControlService.payments,
        operation_id="listPayments",
        tag="Payments",
        summary="List payments",
        description="The payments of this sandbox, newest first. `next_cursor` leads to the next page.",
        reply=schemas.PaymentPage,
        query=schemas.ListPayments,
    ),
    ServiceOperation(
        route="GET /_mock/payments/{payment_id}",
        call=ControlService.payment,
        operation_id="getPaymentDetail",
        tag="Payments",
        summary="Read a payment with its timeline",
        description="The payment, its scenario, the time on its own clock, and its timeline: every change, "
        "past and future. With `at`, as it is that many seconds after its creation; no clock moves.",
        query=schemas.ReadPayment,
        reply=schemas.PaymentDetail,
    ),
    ServiceOperation(
        route="GET /_mock/payments/{payment_id}/wait",
        call=Waits.payment,
        operation_id="waitForPayment",
        tag="Time",
        summary="Wait for a payment",
        description="Returns as soon as the payment has reached `status` or, without one, at its next change;"
        " at once, with `reached: false`, if that can no longer happen; after `timeout` real "
        "seconds at the latest. The server knows when the change comes, and notices "
        "when somebody advances the time or makes a deposit.",
        waits=True,
        reply=schemas.WaitResult,
        query=schemas.WaitForPayment,
    ),
    ServiceOperation(
        route="GET /_mock/wait",
        call=Waits.order,
        operation_id="waitForOrder",
        tag="Time",
        summary="Wait for a payment of an order",
        description="Returns as soon as the newest payment of the order, which need not exist yet, has "
        "reached `status` or, without one, as soon as it exists; at once, with `reached: false`, if that "
        "payment can no longer reach it; after `timeout` real seconds at the latest.",
        waits=True,
        errors=("payment_not_found",),
        reply=schemas.OrderWaitResult,
        query=schemas.WaitForOrder,
    ),
    ServiceOperation(
        route="GET /_mock/requests/wait",
        call=Waits.requests,
        operation_id="waitForRequests",
        tag="Time",
        summary="Wait for requests of the application",
        description="Returns as soon as the journal has `count` requests that match all given parameters, "
        "or after `timeout` real seconds. With `after`, only requests later than that one count; if the "
        "journal no longer has it, all do. Requests with an injected fault count, too, but show no status.",
        waits=True,
        reply=schemas.RequestWaitResult,
        query=schemas.WaitForRequests,
    ),
    ServiceOperation(
        route="POST /_mock/next",
        call=Overrides.add,
        operation_id="setNext",
        tag="Overrides and faults",
        summary="Override the next creations",
        description="""The next `times` creations that carry neither `X-Mock-Scenario` nor `X-Mock-Fault` take
this scenario: for applications that cannot add headers. With `times: null` it is permanent until a reset. In
place of a scenario, a `course` describes one of your own; the rules compute where it leads. They are taken in
the order in which they were added, a permanent one last. A refused request takes none. With an `order_id`, an
`order_id_prefix` or `metadata`, they are for such creations only, so tests run side by side: first what names
the order, then the longest prefix, then the most members of metadata.""",
        request=schemas.SetNext,
        reply=schemas.PendingOverrideList,
        errors=("capacity_exceeded",),
    ),
    ServiceOperation(
        route="GET /_mock/next",
        call=Overrides.pending,
        operation_id="getNext",
        tag="Overrides and faults",
        summary="List pending overrides",
        description="The scenarios that the next creations will get.",
        query=schemas.SelectNext,
        reply=schemas.PendingOverrideList,
    ),
    ServiceOperation(
        route="DELETE /_mock/next",
        call=Overrides.clear,
        operation_id="clearNext",
        tag="Overrides and faults",
        summary="Delete pending overrides",
        description="The next creations get what their own headers say.",
        query=schemas.SelectNext,
    ),
    ServiceOperation(
        route="POST /_mock/faults",
        call=FaultRules.add,
        operation_id="addFault",
        tag="Overrides and faults",
        summary="Add a fault rule",
        description=f"""Injects a fault into the requests that the rule selects by `operation`, `order_id` and
`payment_id`: into `times` of them, once `skip` have passed. So the polls of an unmodified application can
fail. A sandbox has at most {MAX_RULES} rules.

A rule counts each request that it selects in `seen`, whatever fault that gets. A request gets the fault of
the first rule that is due, and that rule counts it in `applied`. The header `X-Mock-Fault` has precedence
over rules. A reset deletes rules.

A fault is `KIND[; before|after][; html][; times=N]`, in a rule and in the header:

{{faults}}

With `; times=2`, the fault applies to the first two attempts only: of an idempotency key or, without one, of
a method and path.""",
        request=schemas.AddFault,
        reply=schemas.FaultRule,
        creates=True,
        errors=("capacity_exceeded",),
    ),
    ServiceOperation(
        route="GET /_mock/faults",
        call=FaultRules.list,
        operation_id="listFaults",
        tag="Overrides and faults",
        summary="List fault rules",
        description="The fault rules in their order, with their counts.",
        reply=schemas.FaultRuleList,
    ),
    ServiceOperation(
        route="DELETE /_mock/faults/{fault_id}",
        call=FaultRules.delete,
        operation_id="deleteFault",
        tag="Overrides and faults",
        summary="Delete a fault rule",
        description="The rule no longer applies, and the requests that it holds continue.",
        errors=("not_found",),
    ),
    ServiceOperation(
        route="DELETE /_mock/faults",
        call=FaultRules.clear,
        operation_id="clearFaults",
        tag="Overrides and faults",
        summary="Delete all fault rules",
        description="Requests get only the faults in their own headers.",
    ),
    ServiceOperation(
        route="GET /_mock/scenarios",
        call=ControlService.list_scenarios,
        operation_id="listScenarios",
        tag="Overrides and faults",
        summary="List the scenarios",
        description="The scenarios of this server, each with its timeline for a `due` of 1,000,000.",
        reply=schemas.ScenarioList,
    ),
    ServiceOperation(
        route="GET /_mock/story",
        call=ControlService.story,
        operation_id="getStory",
        tag="Sandbox",
        summary="Describe what happened, as text",
        description="""Text for the report of a failed test, at most 64 KiB: the clock, the newest payments
with their timelines, where `x` marks what has happened, the fault rules, and the last requests, of which
equal ones are one line. With `payment_id` or `order_id`: what concerns that payment or order. It shows no
keys, addresses and secrets.""",
        reply=str,
        errors=("payment_not_found",),
        query=schemas.ReadStory,
    ),
    ServiceOperation(
        route="GET /_mock/requests",
        call=Journal.newest,
        operation_id="listRequests",
        tag="Sandbox",
        summary="Read the journal",
        description=f"The last {JOURNAL_LENGTH:,} requests below `/v1` of this sandbox, or as many as `serve "
        "--journal` says, newest first, without keys, headers and bodies.",
        reply=schemas.Journal,
        query=schemas.ListRequests,
    ),
    ServiceOperation(
        route="DELETE /_mock/requests",
        call=Journal.clear,
        operation_id="forgetRequests",
        tag="Sandbox",
        summary="Empty the journal",
        description="Deletes the requests in the journal.",
    ),
    ServiceOperation(
        route="POST /_mock/reset",
        call=ControlService.reset,
        operation_id="reset",
        tag="Sandbox",
        summary="Reset the sandbox",
        description="Deletes payments, idempotency keys, webhook endpoints, overrides, fault rules, journal "
        "and clock of this sandbox only.",
    ),
)
