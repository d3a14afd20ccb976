"""The request and reply bodies of the control API, `/_mock`. See docs/control-api.md."""

from typing import Annotated, Any, ClassVar, Literal

from msgspec import UNSET, Meta, UnsetType

from paymock.cache import JOURNAL_LENGTH, MAX_JOURNAL
from paymock.rules.clock import MAX_ADVANCE, MAX_SPEED, MIN_SPEED, SPEEDS, is_speed, now_problem
from paymock.rules.faults import FAULT_FORM, fault_problem
from paymock.rules.identifiers import ID_PATTERNS, PAYMENT_PREFIX
from paymock.rules.scenarios import DepositStatus, PaymentStatus
from paymock.schemas.fields import (
    MAX_ORDER_ID,
    Amount,
    AssetId,
    OrderId,
    ScenarioName,
    Timestamp,
    check,
    condition_problem,
    doc,
    enumeration,
    identifier,
    matching,
    metadata_text_problem,
)
from paymock.schemas.public import OPERATION_IDS, Payment, Problem, Query, Reply, Request
from paymock.schemas.scenarios import NAME_FORMAT, AnyScenarioName, Course, CourseRequest

NEXT, END = "next", "end"
TARGETS = (*(status.value for status in PaymentStatus), NEXT, END)
MAX_TIMES = 1_000_000

MAX_WAIT, DEFAULT_WAIT = 60, 30
"""The longest time to wait, and that without a timeout, in real seconds."""

MAX_COUNT = 1_000
"""The most requests to wait for."""

MAX_PAGE = 200
"""The most payments on a page."""

Seconds = Annotated[float, doc("Seconds of virtual time; fractions down to 0.001.", gt=0, le=MAX_ADVANCE)]
_Speed = Annotated[
    float,
    doc(
        f"Speed relative to real time: 0 to freeze it, or at least {MIN_SPEED}.",
        ge=0,
        le=MAX_SPEED,
        examples=[10],
        extra_json_schema={"not": {"exclusiveMinimum": 0, "exclusiveMaximum": MIN_SPEED}},
        extra=check(is_speed, f"must be {SPEEDS}"),
    ),
]
_Now = Annotated[
    str,
    doc(
        "The time to go on from: RFC 3339 with an offset, in the years 2000 to 2100.",
        examples=["2024-02-29T12:00:00Z"],
        extra_json_schema={"format": "date-time"},
        extra={"check": now_problem},
    ),
]
Target = Annotated[
    str,
    enumeration("AdvanceTarget", "A status, the next change, or the end of a payment's timeline.", TARGETS),
]
Fault = Annotated[
    str,
    doc(
        f"A fault in the form of `X-Mock-Fault`: {FAULT_FORM}.",
        examples=["status=503; times=2"],
        extra_json_schema={"minLength": 1},
        extra={"check": fault_problem},
    ),
]
PaymentId = Annotated[
    str,
    identifier(PAYMENT_PREFIX, "a payment"),
    matching(ID_PATTERNS[PAYMENT_PREFIX], "must be the `id` of a payment"),
]
OperationId = Annotated[
    str, enumeration("OperationId", "The id of an operation in the document of `/v1`.", OPERATION_IDS)
]
MetadataCondition = Annotated[
    dict[str, Any],
    doc(
        "Members of metadata: 1 to 10, at most 1,024 bytes.",
        extra_json_schema={"additionalProperties": True, "minProperties": 1, "maxProperties": 10},
        extra={"check": condition_problem},
    ),
]
_Times = Annotated[int, Meta(ge=1, le=MAX_TIMES)]
_Text = Annotated[str, Meta(min_length=1)]
_Cursor = Annotated[str, matching("^[0-9]{1,18}$", "must be the `next_cursor` of a page")]
_At = Annotated[str, matching(r"^[0-9]{1,8}(\.[0-9]{1,3})?$", "must be seconds after creation: 13 or 0.5")]
_Timeout = Annotated[float, doc(f"Real seconds, at most {MAX_WAIT}.", ge=0, le=MAX_WAIT)]


class ListPayments(Query):
    """Which payments are listed."""

    limit: Annotated[int, doc(f"How many, 1 to {MAX_PAGE}.", ge=1, le=MAX_PAGE)] = 50
    cursor: Annotated[_Cursor | None, doc("The `next_cursor` of the previous page.")] = None
    status: Annotated[PaymentStatus | None, doc("Only payments with this status.")] = None
    scenario: Annotated[Annotated[str, NAME_FORMAT] | None, doc("Only those of this scenario or course.")] = (
        None
    )
    order_id: Annotated[str | None, doc("Only payments of this order.")] = None
    search: Annotated[
        Annotated[str, Meta(min_length=1, max_length=MAX_ORDER_ID)] | None,
        doc("A part of an `order_id`, the beginning of an `id`, an invoice address or a transaction hash."),
    ] = None


class ReadPayment(Query):
    """At which moment a payment is read."""

    at: Annotated[_At | None, doc("Seconds after its creation, up to milliseconds; without it, now.")] = None


class WaitForPayment(Query):
    """What is waited for."""

    status: Annotated[PaymentStatus | None, doc("What to wait for; without it, the next change.")] = None
    timeout: _Timeout = DEFAULT_WAIT


class WaitForOrder(Query):
    """What is waited for."""

    order_id: Annotated[_Text, doc("The order to wait for, or the id of a payment.")]
    status: Annotated[PaymentStatus | None, doc("What to wait for; without it, the payment.")] = None
    timeout: _Timeout = DEFAULT_WAIT


class WaitForRequests(Query):
    """Which requests are waited for."""

    operation: Annotated[OperationId | None, doc("Only those of this operation.")] = None
    order_id: Annotated[_Text | None, doc("Only those about payments of this order.")] = None
    payment_id: Annotated[PaymentId | None, doc("Only those about this payment.")] = None
    shown: Annotated[PaymentStatus | None, doc("Only those whose reply showed this status.")] = None
    count: Annotated[int, doc(f"How many, 1 to {MAX_COUNT:,}.", ge=1, le=MAX_COUNT)] = 1
    after: Annotated[_Text | None, doc("Only those after the request with this `request_id`.")] = None
    timeout: _Timeout = DEFAULT_WAIT


class SelectNext(Query):
    """Which overrides are meant: those with all these conditions; without any, all."""

    order_id: Annotated[_Text | None, doc("Only what is pending for the creations of this order.")] = None
    order_id_prefix: Annotated[_Text | None, doc("Only for orders whose ids begin so.")] = None
    metadata: Annotated[
        Annotated[str, Meta(extra={"check": metadata_text_problem})] | None,
        doc("Only for creations with these members of metadata, as JSON."),
    ] = None


class ListRequests(Query):
    """Which requests are listed."""

    payment_id: Annotated[str | None, doc("Only those about this payment.")] = None
    limit: Annotated[
        int, doc(f"How many, 1 to {JOURNAL_LENGTH}, or to `--journal` if that is more.", ge=1, le=MAX_JOURNAL)
    ] = 100


class ReadStory(Query):
    """Whose story is told."""

    payment_id: Annotated[str | None, doc("Only that of this payment.")] = None
    order_id: Annotated[str | None, doc("Only that of the payments of this order.")] = None


class VirtualClock(Reply):
    """The virtual clock of this sandbox."""

    now: Annotated[Timestamp, doc("The virtual time.")]
    speed: Annotated[float, doc("Its speed relative to real time; 0: it is frozen.", ge=0)]


class PolledClock(VirtualClock):
    """The virtual clock of this sandbox, and what tells a page that polls it when to draw anew."""

    revision: Annotated[
        str,
        doc(
            "Differs after anything in the sandbox has changed but the time, by any process.",
            examples=["d7a8fbb307d78094"],
        ),
    ]
    next_change_at: Annotated[
        Timestamp | None,
        doc(
            "The virtual time at which one of the newest 1,000 payments changes next by itself; null while "
            "nothing lies ahead."
        ),
    ]


class SetClock(Request):
    """A change of the speed; or, of an empty sandbox, the time, and the speed from then on."""

    speed: _Speed | UnsetType = UNSET
    now: _Now | UnsetType = UNSET


class Advance(Request):
    """A step ahead in time."""

    seconds: Annotated[Seconds, Meta(examples=[45])]


class AdvancePayment(Request):
    """A step ahead of one payment: by `seconds`, or `to` a status, the next change or the end."""

    seconds: Seconds | None = None
    to: Annotated[Target | None, doc("Where to go.")] = None
    until_observed: Annotated[
        bool,
        doc(
            "Whether to stay at each visible change until the application has had a reply to "
            "`getPayment` or `listAttempts` that shows it. Default: false."
        ),
    ] = False
    timeout: Annotated[
        _Timeout | None,
        doc(f"With `until_observed`: real seconds for the whole call. Default: {DEFAULT_WAIT}."),
    ] = None


class MakeDeposit(Request):
    """A transfer that is observed now."""

    amount: Annotated[Amount, doc("Raw units of `asset`.", examples=["505000000000000000"])]
    asset: Annotated[AssetId | None, doc("Default: the asset of the instructions.")] = None


class SetNext(Request):
    """The scenario of the next creations that have no header of their own: a `scenario` or a `course`."""

    gone: ClassVar = {"fault": 'is for a rule: POST /_mock/faults {"fault": …, "operation": "createPayment"}'}

    scenario: Annotated[ScenarioName | None, doc("One that this server knows.")] = None
    course: Annotated[CourseRequest | None, doc("A scenario of your own.")] = None
    times: Annotated[_Times | None, doc("How many creations; `null`: all, until a reset. Default: 1.")] = 1
    order_id: Annotated[OrderId | None, doc("Only creations of this order.")] = None
    order_id_prefix: Annotated[OrderId | None, doc("Only creations of orders whose ids begin so.")] = None
    metadata: Annotated[
        MetadataCondition | None, doc("Only creations whose metadata have these members, with equal values.")
    ] = None


class PendingOverride(Reply):
    """A scenario that is still to be taken."""

    scenario: AnyScenarioName
    times: Annotated[int | None, doc("How many times are left; `null`: all, until a reset.")]
    course: Annotated[Course, doc("Present unless the scenario is a built-in one.")] | UnsetType = UNSET
    order_id: Annotated[str, doc("Present if it is for this order only.")] | UnsetType = UNSET
    order_id_prefix: Annotated[str, doc("Present if the order has to begin so.")] | UnsetType = UNSET
    metadata: Annotated[MetadataCondition, doc("Present if metadata need these.")] | UnsetType = UNSET


class PendingOverrideList(Reply):
    """The pending overrides of this sandbox."""

    data: Annotated[list[PendingOverride], doc("In the order in which they are taken.")]


class AddFault(Request, kw_only=True):
    """A rule that injects a fault into the requests that it selects. Fields that are absent select all."""

    fault: Fault
    operation: Annotated[OperationId | None, doc("Requests of this operation.")] = None
    order_id: Annotated[OrderId | None, doc("Requests about payments of this order.")] = None
    order_id_prefix: Annotated[OrderId | None, doc("Or of orders whose ids begin so.")] = None
    payment_id: Annotated[PaymentId | None, doc("Requests about this payment.")] = None
    skip: Annotated[int, doc("How many requests pass first. Default: 0.", ge=0, le=MAX_TIMES)] = 0
    times: Annotated[
        _Times | None,
        doc("How many requests get the fault; `null`: all, until the rule is deleted. Default: 1."),
    ] = 1


class FaultRule(Reply):
    """A fault rule, and its counts."""

    id: Annotated[str, identifier("flt_", "a fault rule")]
    fault: Fault
    operation: Annotated[OperationId | None, doc("`null`: every operation.")]
    order_id: Annotated[str | None, doc("`null`: requests of any order, or of none.")]
    order_id_prefix: Annotated[str | None, doc("How the ids of the orders begin; `null`: anyhow.")]
    payment_id: Annotated[str | None, doc("`null`: requests about any payment, or none.")]
    skip: Annotated[int, doc("How many requests pass first.", ge=0)]
    times: Annotated[int | None, doc("How many requests get the fault; `null`: all.")]
    seen: Annotated[int, doc("How many requests it has selected, whatever fault they got.", ge=0)]
    applied: Annotated[int, doc("How many requests got its fault.", ge=0)]
    waiting: Annotated[int, doc("How many of these it holds at the moment, in all processes.", ge=0)]


class FaultRuleList(Reply):
    """The fault rules of this sandbox."""

    data: Annotated[list[FaultRule], doc("In order: the first one that is due applies.")]


LeadSeconds = Annotated[
    float, doc("Seconds that the payment's clock is ahead of its sandbox's; 0: none.", ge=0)
]


class ListedPayment(Payment):
    """A payment, and what only the control API tells of it."""

    scenario: AnyScenarioName
    age_seconds: Annotated[float, doc("Seconds of virtual time since its creation.", ge=0)]
    ahead_seconds: LeadSeconds


class PaymentPage(Reply):
    """A page of the payments of this sandbox."""

    data: Annotated[list[ListedPayment], doc("Newest first.")]
    next_cursor: Annotated[str | None, doc("The `cursor` of the next page; `null` on the last.")]
    total: Annotated[int, doc("How many payments the sandbox has, whatever the filters and the page.", ge=0)]


Offset = Annotated[float, doc("Seconds after creation.", ge=0)]


class ScenarioChange(Reply, gc=False):
    """A change of every payment of a scenario."""

    offset_seconds: Offset
    event: Annotated[str, doc("What happens, in words.")]
    status: Annotated[PaymentStatus, doc("The payment's status from then on.")]
    deposit: Annotated[int | None, doc("Which deposit it happens to, from 1; `null`: none.")]
    confirmations: Annotated[int | None, doc("How many confirmations that deposit has from then on.")]
    deposit_status: Annotated[DepositStatus | None, doc("Its status from then on; `null`: no deposit.")]


class TimelineEntry(ScenarioChange, gc=False):
    """A change of a payment, past or to come."""

    at: Annotated[Timestamp, doc("On the payment's clock, which may be ahead of its sandbox's.")]
    reached: Annotated[bool, doc("Whether it has happened.")]


class ListedScenario(Course):
    """A scenario, and what it leads to for a `due` of 1,000,000 raw units."""

    final_status: Annotated[PaymentStatus, doc("The final status of such a payment.")]
    timeline: Annotated[list[ScenarioChange], doc("In order.")]


class ScenarioList(Reply):
    """The scenarios of this server."""

    data: Annotated[list[ListedScenario], doc("The built-in ones, then those of the file of `--scenarios`.")]


class PaymentDetail(Reply):
    """A payment with its past and its future."""

    payment: Payment
    scenario: AnyScenarioName
    decimals: Annotated[int | None, doc("Of its asset; `null`: the catalog does not list it any more.")]
    now: Annotated[Timestamp, doc("The time on the payment's clock.")]
    timeline: Annotated[list[TimelineEntry], doc("In order.")]
    window_seconds: Annotated[float, doc("How long after creation the payment window closes.", ge=0)]
    before: Annotated[Payment | None, doc("Before its last change; `null`: nothing has changed yet.")]
    ahead_seconds: LeadSeconds


class FrozenClock(Reply):
    """The clock of a sandbox that is frozen."""

    speed: Annotated[int, doc("Always 0.", ge=0, le=0)] = 0


_Ended = (
    Annotated[str, doc("If it has not come: where the payment stands, and what was awaited.")] | UnsetType
)


class OrderWaitResult(Reply):
    """How a wait for an order ended."""

    reached: Annotated[bool, doc("Whether what was waited for has come.")]
    possible: Annotated[
        bool, doc("Whether its newest payment has reached that or can still do so, or does not exist.")
    ]
    payment: Annotated[Payment | None, doc("The newest payment of the order; `null`: it has none.")]
    clock: Annotated[FrozenClock, doc("Present if the wait ran out under a frozen clock.")] | UnsetType = (
        UNSET
    )
    message: _Ended = UNSET


class WaitResult(OrderWaitResult):
    """How a wait ended."""

    possible: Annotated[bool, doc("Whether it has come or can still come.")]
    payment: Payment


class ObservedPayment(Reply):
    """How an advance with `until_observed` ended."""

    payment: Payment
    observed: Annotated[
        bool,
        doc(
            "Whether the application has read every change; `false`: the timeout has passed, and "
            "the payment stands at the change that nobody has read."
        ),
    ]
    message: _Ended = UNSET


class JournalEntry(Reply):
    """A request that this sandbox has seen."""

    at: Annotated[Timestamp, doc("When it was answered, in real time.")]
    method: Annotated[str, doc("The method.")]
    path: Annotated[str, doc("The path, without secrets.")]
    status: Annotated[int, doc("The status of the reply; 0 when the connection was dropped.")]
    error: Annotated[str | None, doc("The error code of a refusal.")]
    message: Annotated[str | None, doc("The message of a refusal.")]
    details: Annotated[list[Problem], doc("The first problems of a refused body.")]
    payment_id: Annotated[str | None, doc("The payment that it created, or asked for.")]
    idempotency: Annotated[
        Annotated[
            Literal["new", "replayed", "conflict"],
            Meta(title="IdempotencyOutcome", description="What became of an Idempotency-Key."),
        ]
        | None,
        doc("`null` without an Idempotency-Key."),
    ]
    request_id: Annotated[str, doc("Its `X-Request-Id`.")]
    duration_ms: Annotated[float, doc("Milliseconds from the head to the reply.", ge=0)]
    operation: Annotated[OperationId | None, doc("`null`: the request met no operation.")]
    order_id: Annotated[str | None, doc("The order that it was about.")]
    shown: Annotated[
        PaymentStatus | None,
        doc("The status of the payment in the reply; `null` if it showed none, or a fault hid it."),
    ]
    fault: Annotated[str | None, doc("The injected fault; `null`: none.")]
    shown_offset_seconds: Annotated[
        Offset | None,
        doc("Seconds from the creation to the shown state; `null` where `shown` is."),
    ]
    virtual_at: Annotated[
        Timestamp | None,
        doc("When it was answered, on the clock of the sandbox; `null`: by an earlier version."),
    ]
    fetch_site: Annotated[str | None, doc("The header `Sec-Fetch-Site`, if a browser has sent the request.")]
    payment_ahead_seconds: Annotated[
        LeadSeconds | None,
        doc("How far the clock of its payment was ahead, in seconds; `null`: it had none."),
    ]
    key: Annotated[
        str | None, doc("Of a creation: which key of its order it had, `1` for the first one; never the key.")
    ]
    differs: Annotated[list[str], doc("After the reuse of a key: the first paths that differ.")]


class Journal(Reply):
    """The last requests of this sandbox below `/v1`."""

    data: Annotated[list[JournalEntry], doc("Newest first.")]


class RequestWaitResult(Reply):
    """How a wait for requests ended."""

    reached: Annotated[bool, doc("Whether there were as many as `count`.")]
    data: Annotated[list[JournalEntry], doc("The requests that match, newest first.")]
    gap: Annotated[bool | UnsetType, doc("Whether the journal lacks `after`: requests may be lost.")] = UNSET
    message: _Ended = UNSET
