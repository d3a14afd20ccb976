"""Faults to inject, to test the retries of a client, and the rules that select requests for them.

A fault is text, in the header `X-Mock-Fault` and in a rule: `KIND[; before|after][; html][; times=N]`.
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


_FAULT = re.compile(
    r"(?:(status)=(200|[45][0-9]{2})|(delay)=([0-9]{1,5})|(truncate)=([0-9]{1,6})|(drop|reset|hang|hold|extra))"
    r"(?:[ \t]*;[ \t]*(before|after))?"
    r"(?:[ \t]*;[ \t]*(html))?"
    r"(?:[ \t]*;[ \t]*times=([1-9][0-9]{0,5}))?"
)

FAULT_FORM = (
    f"status=CODE (400 to 599; 200 needs html), delay=MILLISECONDS (at most {MAX_DELAY}), drop, reset, hang, "
    "hold (in a rule only), extra or truncate=BYTES; then, if wanted and in this order, ; before or ; after "
    "(extra and truncate: after only), ; html (status only), ; times=N"
)
"""What a fault looks like, for messages."""


class FaultRow(NamedTuple):
    """A row of the table of faults: an example, the phase if it names none, and what happens."""

    example: str
    phase: str
    meaning: str


STATUS_FAULT = FaultRow(
    "status=503",
    "before",
    "The reply has this status, 400 to 599. `before`: nothing is carried out; `after`: the request is "
    "carried out, and its reply is replaced. `html`: a gateway's page in place of the error envelope; with "
    "it, 200 too, as of a proxy that is up while the service is down",
)

FAULT_ROWS = (
    STATUS_FAULT,
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
        'The true reply, with one more member, `"x_mock_unknown": {}`, at the end of each object, except in '
        "`metadata` and errors: a client must ignore members that it does not know",
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
    ("Gateway page", "status=502; html", "A proxy answers, with HTML in place of JSON."),
    ("False success", "status=200; html", "A proxy answers with a page and 200."),
    ("Slow", "delay=5000", "It takes five seconds longer."),
    ("Reply lost", "drop", "The payment is made, but the connection closes without a reply."),
    ("Refused", "drop; before", "Nothing is made: the connection closes at once."),
    ("Cut off", "truncate=100", "The connection closes after 100 bytes of the reply."),
    ("No answer", "hang", "The connection stays open, without a reply."),
)
"""Failures by the names that people know: the name, the fault, and what happens."""


class Fault(NamedTuple):
    """A fault, which `text` describes. `number` is a status, milliseconds or bytes. `after`: the request is
    carried out first. `html`: a gateway's page replaces the error envelope. `times`: how many attempts of an
    operation it is injected into; None: all.
    """

    text: str
    kind: FaultKind
    number: int = 0
    after: bool = False
    html: bool = False
    times: int | None = None

    @property
    def keeps_reply(self) -> bool:
        """Whether the client gets the true reply, only later or with members that it does not know."""
        return self.kind in (FaultKind.DELAY, FaultKind.HOLD, FaultKind.EXTRA)

    @property
    def loses_reply(self) -> bool:
        return self.kind in (FaultKind.DROP, FaultKind.RESET, FaultKind.HANG)


@lru_cache(maxsize=1_000)  # a rule is parsed at each request that it may select
def parse_fault(text: str) -> Fault | None:
    """The fault that `text` describes (`status=503; after; times=2`, `drop`), or None if it is invalid."""
    match = _FAULT.fullmatch(text)
    if match is None:
        return None
    *kinds, phase, html, times = match.groups()
    name, *numbers = [part for part in kinds if part is not None]
    kind, number = FaultKind(name), int(numbers[0]) if numbers else 0
    after = phase == "after" if phase else kind not in (FaultKind.STATUS, FaultKind.DELAY)
    if (
        (kind is FaultKind.DELAY and number > MAX_DELAY)
        or (kind in (FaultKind.EXTRA, FaultKind.TRUNCATE) and not after)
        or (html and kind is not FaultKind.STATUS)
        or (kind is FaultKind.STATUS and number == 200 and not html)
    ):
        return None
    return Fault(text, kind, number, after, html is not None, int(times) if times else None)


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
    """A rule: the fault for requests of an operation, an order or a payment, where None selects all.

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

    def selects(self, target: FaultTarget) -> bool:
        return (
            self.operation in (None, target.operation)
            and self.order_id in (None, target.order_id)
            and self.payment_id in (None, target.payment_id)
        )

    @property
    def is_due(self) -> bool:
        return self.seen >= self.skip and (self.times is None or self.applied < self.times)
