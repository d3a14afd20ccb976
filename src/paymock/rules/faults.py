"""Faults to inject, to test the retries of a client, and the rules that select requests for them.

A fault is text, in the header `X-Mock-Fault` and in a rule:
`KIND[; before|after][; html][; retry-after=SECONDS|date|none][; times=N]`.
"""

import re
from enum import StrEnum
from functools import lru_cache
from typing import NamedTuple

from msgspec import Struct

MAX_DELAY = 30_000
"""The longest delay, in milliseconds."""

MAX_HANG = 60
"""How long a request hangs or is held at most, in seconds."""


class FaultKind(StrEnum):
    """What happens to a request, or to its reply."""

    STATUS = "status"
    DELAY = "delay"
    DROP = "drop"
    RESET = "reset"
    HANG = "hang"
    HOLD = "hold"
    EXTRA = "extra"
    TRUNCATE = "truncate"


MAX_RETRY_AFTER = 86_400
"""The longest `Retry-After` of a fault, in seconds."""

_FAULT = re.compile(
    r"(?:(status)=(200|[45][0-9]{2})|(delay)=([0-9]{1,5})|(truncate)=([0-9]{1,6})|(drop|reset|hang|hold)"
    r"|(extra)(?:=(status|attempt|deposit|type))?)"
    r"(?:[ \t]*;[ \t]*(?P<phase>before|after))?"
    r"(?:[ \t]*;[ \t]*(?P<html>html))?"
    r"(?:[ \t]*;[ \t]*retry-after=(?P<retry_after>[0-9]{1,5}|date|none))?"
    r"(?:[ \t]*;[ \t]*times=(?P<times>[1-9][0-9]{0,5}))?"
)

FAULT_FORM = (
    f"status=CODE (400 to 599; 200 needs html), delay=MILLISECONDS (at most {MAX_DELAY}), drop, reset, hang, "
    "hold (in a rule only), extra, extra=status, extra=attempt, extra=deposit, extra=type or truncate=BYTES; "
    "then, if wanted and in this order, ; before or ; after (extra and truncate: after only), ; html and "
    f"; retry-after=SECONDS (at most {MAX_RETRY_AFTER}), date or none (status only), ; times=N"
)
"""What a fault looks like, for messages."""


class FaultRow(NamedTuple):
    """A row of the table of faults: an example, the phase if it names none, and what happens."""

    example: str
    phase: str
    meaning: str


FAULT_ROWS = (
    FaultRow(
        "status=503",
        "before",
        "The reply has this status, 400 to 599. `before`: nothing is carried out; `after`: the request is "
        "carried out, and its reply replaced. `html`: a gateway's page in place of the error, also with 200. "
        "`retry-after`: seconds, an HTTP `date` a second ahead, or `none`; without it, 429 and 503 say 1",
    ),
    FaultRow(
        "delay=1500",
        "before",
        f"A delay in milliseconds, at most {MAX_DELAY:,}, before the request is carried out; `after`: it is "
        "carried out at once, and the reply is delayed",
    ),
    FaultRow(
        "drop",
        "after",
        "The connection is closed without a reply, after the request is carried out; `before`: it is not "
        "carried out",
    ),
    FaultRow("reset", "after", "Like `drop`, with a TCP reset"),
    FaultRow(
        "hang",
        "after",
        f"Like `drop`, but the connection stays open until the client closes it, at most {MAX_HANG} seconds",
    ),
    FaultRow(
        "hold",
        "after",
        "In a rule only. The reply waits until its rule is deleted, the client leaves or the server stops, "
        f"at most {MAX_HANG} seconds; `before`: until then, the request is not carried out, and not at all "
        "if the client leaves",
    ),
    FaultRow(
        "extra",
        "after only",
        'The true reply, with a member `"x_mock_unknown": {}` more in each object but `metadata` and errors, '
        "which a client must ignore; or with the value `x_mock_unknown` of a later release: as status of the "
        "payment (`extra=status`), of `extra=attempt`, `extra=deposit`, or as type of the instructions "
        "(`extra=type`), then without `invoice_address`",
    ),
    FaultRow(
        "truncate=100",
        "after only",
        "The head of the reply, with the full `Content-Length`, and this many bytes of the body; then the "
        "connection is closed",
    ),
)

FAULT_PRESETS = (
    ("503 error", "status=503", "The service is overloaded."),
    ("Gateway page", "status=502; html", "A proxy answers with HTML instead of JSON."),
    ("False success", "status=200; html", "A proxy answers with a page and 200."),
    ("Slow", "delay=5000", "The reply takes five seconds longer."),
    ("Reply lost", "drop", "The payment is created, but the connection closes without a reply."),
    ("Refused", "drop; before", "The connection closes at once; nothing is created."),
    ("Cut off", "truncate=100", "The connection closes after 100 bytes of the reply."),
    ("No answer", "hang", "The connection stays open, without a reply."),
    ("Told to wait", "status=429; retry-after=date", "The service asks for a pause, by a date."),
    ("New status", "extra=status", "A later release sends a status that clients do not know."),
)
"""Failures by the names that people know: the name, the fault, and what happens."""


class Fault(NamedTuple):
    """A fault, which `text` describes. `number` is a status, milliseconds or bytes. `after`: the request is
    carried out first. `html`: a gateway's page replaces the error envelope. `times`: how many attempts of an
    operation it is injected into; None: all. `part`: what of the reply gets an unknown value. `retry_after`:
    seconds, `date` or `none`; None: as usual.
    """

    text: str
    kind: FaultKind
    number: int = 0
    after: bool = False
    html: bool = False
    times: int | None = None
    part: str = ""
    retry_after: str | None = None

    @property
    def keeps_reply(self) -> bool:
        """Whether the client gets the true reply, only later or with members that it does not know."""
        return self.kind in (FaultKind.DELAY, FaultKind.HOLD, FaultKind.EXTRA)

    @property
    def hides_status(self) -> bool:
        """Whether the reply does not show the true status of the payment, or never comes."""
        return not self.keeps_reply or self.part == "status"

    @property
    def loses_reply(self) -> bool:
        return self.kind in (FaultKind.DROP, FaultKind.RESET, FaultKind.HANG)


@lru_cache(maxsize=1_000)  # a rule is parsed at each request that it may select
def parse_fault(text: str) -> Fault | None:
    """The fault that `text` describes (`status=503; after; times=2`, `drop`), or None if it is invalid."""
    match = _FAULT.fullmatch(text)
    if match is None:
        return None
    *kinds, phase, html, retry_after, times = match.groups()
    name, value, *_ = *(part for part in kinds if part is not None), ""
    kind, number = FaultKind(name), int(value) if value.isdecimal() else 0
    after = phase == "after" if phase else kind not in (FaultKind.STATUS, FaultKind.DELAY)
    is_plain = kind is not FaultKind.STATUS or number == 200
    if (
        (kind is FaultKind.DELAY and number > MAX_DELAY)
        or (kind in (FaultKind.EXTRA, FaultKind.TRUNCATE) and not after)
        or (html and kind is not FaultKind.STATUS)
        or (retry_after and (is_plain or (retry_after.isdecimal() and int(retry_after) > MAX_RETRY_AFTER)))
        or (kind is FaultKind.STATUS and number == 200 and not html)
    ):
        return None
    part = value if kind is FaultKind.EXTRA else ""
    repeats = int(times) if times else None
    return Fault(text, kind, number, after, html is not None, repeats, part, retry_after)


def fault_problem(text: str) -> str | None:
    if parse_fault(text):
        return None
    meant = f"status={text}"
    return f"must name its kind: did you mean {meant}?" if parse_fault(meant) else f"must be {FAULT_FORM}"


class FaultTarget(NamedTuple):
    """A request that rules may select: the id of its operation, and the order and the payment that it is
    about, if any; and how many milliseconds that payment is ahead of its sandbox, which selects nothing.
    """

    operation: str
    order_id: str | None = None
    payment_id: str | None = None
    ahead: int | None = None


class FaultRule(Struct, frozen=True, gc=False, array_like=True):
    """A rule: the fault for requests of an operation, an order, orders whose ids begin with a prefix, or a
    payment, where None selects all.

    It applies to `times` of those requests (None: to all) once `skip` of them have passed. `seen` counts the
    selected requests, whatever fault they got, and `applied` those that got the fault of this rule. `waiting`
    are those that it holds, by token: the latest real time, in milliseconds since the epoch, when they go on.
    """

    id: str
    fault: str
    operation: str | None = None
    order_id: str | None = None
    payment_id: str | None = None
    skip: int = 0
    times: int | None = 1
    seen: int = 0
    applied: int = 0
    waiting: dict[str, int] = {}
    order_id_prefix: str | None = None

    def selects(self, target: FaultTarget) -> bool:
        return (
            self.operation in (None, target.operation)
            and self.order_id in (None, target.order_id)
            and (self.order_id_prefix is None or (target.order_id or "").startswith(self.order_id_prefix))
            and self.payment_id in (None, target.payment_id)
        )

    @property
    def is_due(self) -> bool:
        return self.seen >= self.skip and (self.times is None or self.applied < self.times)
