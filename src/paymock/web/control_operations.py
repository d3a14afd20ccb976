"""The table of the control API's operations. See docs/control-api.md."""

from paymock import journal
from paymock.core import control_wire as wire
from paymock.core.scenarios import SCENARIOS, PaymentStatus
from paymock.core.wire import Payment
from paymock.web import control
from paymock.web.operations import BODY_ERRORS, PAYMENT_ID, Operation, Query

_STATUSES = {"type": "string", "enum": [status.value for status in PaymentStatus]}

OPERATIONS = (
    Operation(
        method="GET",
        path="/_mock/clock",
        handler=control.get_clock,
        operation_id="getClock",
        tag="Time",
        summary="Read the clock",
        description="The virtual clock of this sandbox. Every time that `/v1` shows is read from it.",
        reply=wire.Clock,
    ),
    Operation(
        method="PUT",
        path="/_mock/clock",
        handler=control.set_clock,
        operation_id="setClock",
        tag="Time",
        summary="Change the speed",
        description="Lets virtual time run `speed` times as fast as real time, from now on. Speed 0 freezes "
        "it. Time never jumps and never runs backwards.",
        request=wire.SetClock,
        reply=wire.Clock,
        errors=BODY_ERRORS,
    ),
    Operation(
        method="POST",
        path="/_mock/clock/advance",
        handler=control.advance,
        operation_id="advanceClock",
        tag="Time",
        summary="Move the sandbox ahead",
        description="Moves the sandbox ahead at once, frozen or not. When the reply comes, every read shows "
        "the new time.",
        request=wire.Advance,
        reply=wire.Clock,
        errors=BODY_ERRORS,
    ),
    Operation(
        method="POST",
        path="/_mock/payments/{payment_id}/advance",
        handler=control.advance_payment,
        operation_id="advancePayment",
        tag="Time",
        summary="Move one payment ahead",
        description="Moves one payment ahead of its sandbox: by `seconds`, or `to` a status, to the `next` "
        "change, or to the `end` of its course. 409 when that does not lie ahead.",
        request=wire.AdvancePayment,
        reply=Payment,
        errors=("payment_not_found", "status_unreachable", *BODY_ERRORS),
        parameters=PAYMENT_ID,
    ),
    Operation(
        method="POST",
        path="/_mock/payments/{payment_id}/deposits",
        handler=control.deposit,
        operation_id="makeDeposit",
        tag="Payments",
        summary="Simulate a deposit",
        description="A transfer is observed now, beside those of the scenario, and follows the same rules: "
        "two halves fund a payment, too much goes to review, another asset is rejected, after the"
        " window it is late. An `Idempotency-Key` is honored when sent.",
        request=wire.MakeDeposit,
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
        handler=control.list_payments,
        operation_id="listPayments",
        tag="Payments",
        summary="List payments",
        description="The payments of this sandbox, newest first. `next_cursor` leads to the next page.",
        reply=wire.PaymentPage,
        errors=("invalid_query",),
        query=(
            Query(
                "limit",
                f"How many, 1 to {control.MAX_PAGE}.",
                {"type": "integer", "minimum": 1, "maximum": control.MAX_PAGE, "default": 50},
            ),
            Query(
                "cursor",
                "The `next_cursor` of the page before.",
                {"type": "string", "pattern": "^[0-9]{1,18}$"},
            ),
            Query("status", "Only payments that stand here.", _STATUSES),
            Query("scenario", "Only payments of this scenario.", {"type": "string", "enum": list(SCENARIOS)}),
            Query("order_id", "Only payments of this order.", {"type": "string"}),
        ),
    ),
    Operation(
        method="GET",
        path="/_mock/payments/{payment_id}",
        handler=control.get_payment,
        operation_id="getPaymentDetail",
        tag="Payments",
        summary="Read a payment with its timeline",
        description="The payment, its scenario, the time on its own clock, and every change of its course: "
        "past and to come.",
        reply=wire.PaymentDetail,
        errors=("payment_not_found",),
        parameters=PAYMENT_ID,
    ),
    Operation(
        method="GET",
        path="/_mock/payments/{payment_id}/wait",
        handler=control.wait,
        operation_id="waitForPayment",
        tag="Time",
        summary="Wait for a payment",
        description="Answers as soon as the payment has reached `status` or, without one, at its next change;"
        " at once with `reached: false` when that can no longer come; after `timeout` real "
        "seconds at the latest. The server knows when the change comes, and wakes early when "
        "somebody moves time or makes a deposit.",
        reply=wire.WaitResult,
        errors=("payment_not_found", "invalid_query"),
        parameters=PAYMENT_ID,
        query=(
            Query("status", "What to wait for; without it, the next change.", _STATUSES),
            Query(
                "timeout",
                f"Real seconds, at most {control.MAX_WAIT}.",
                {"type": "number", "minimum": 0, "maximum": control.MAX_WAIT, "default": 30},
            ),
        ),
    ),
    Operation(
        method="POST",
        path="/_mock/next",
        handler=control.set_next,
        operation_id="setNext",
        tag="Overrides and faults",
        summary="Override the next creations",
        description="The next `times` creations that carry neither `X-Mock-Scenario` nor `X-Mock-Fault` take "
        "this scenario and this fault: for applications that cannot add headers. With `times: "
        "null` it stands until a reset. Scenarios and faults wait in queues of their own, are taken in the "
        "order in which they came, and what stands for good comes last. A refused request takes none; one "
        "that a fault refuses takes the fault and leaves the scenario to the retry.",
        request=wire.SetNext,
        reply=wire.PendingList,
        errors=(*BODY_ERRORS, "capacity_exceeded"),
    ),
    Operation(
        method="GET",
        path="/_mock/next",
        handler=control.get_next,
        operation_id="getNext",
        tag="Overrides and faults",
        summary="Read what is pending",
        description="The scenarios, then the faults, that the next creations take.",
        reply=wire.PendingList,
    ),
    Operation(
        method="DELETE",
        path="/_mock/next",
        handler=control.clear_next,
        operation_id="clearNext",
        tag="Overrides and faults",
        summary="Forget what is pending",
        description="The next creations take what their own headers say.",
        reply=None,
        status=204,
    ),
    Operation(
        method="GET",
        path="/_mock/requests",
        handler=control.list_requests,
        operation_id="listRequests",
        tag="Sandbox",
        summary="Read the journal",
        description=f"The last {journal.LENGTH:,} requests below `/v1` of this sandbox, newest first, "
        "without keys, headers and bodies.",
        reply=wire.Journal,
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
        handler=control.forget_requests,
        operation_id="forgetRequests",
        tag="Sandbox",
        summary="Empty the journal",
        description="Forgets the requests that the journal holds.",
        reply=None,
        status=204,
    ),
    Operation(
        method="POST",
        path="/_mock/reset",
        handler=control.reset,
        operation_id="reset",
        tag="Sandbox",
        summary="Reset the sandbox",
        description="Forgets payments, idempotency keys, webhook endpoints, overrides, journal and clock of "
        "this sandbox, and of no other.",
        reply=None,
        status=204,
    ),
)
