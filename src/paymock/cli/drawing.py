"""Pictures of payments on their way, drawn on a terminal with rich. NO_COLOR is honored."""

import io
import sys
from collections.abc import Callable, Sequence
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from paymock.cli.follower import REDRAW, PaymentFollower, follow
from paymock.cli.money import tokens
from paymock.cli.output import printable, seconds, what_happened
from paymock.rules.scenarios import SCENARIOS, DepositStatus, PaymentStatus
from paymock.schemas.control import TimelineEntry
from paymock.schemas.public import Deposit

_COLORS = {
    PaymentStatus.AWAITING_PAYMENT: "white",
    PaymentStatus.PAYMENT_DETECTED: "blue",
    PaymentStatus.PAYMENT_FINALIZED: "cyan",
    PaymentStatus.SETTLEMENT_PENDING: "bright_blue",
    PaymentStatus.SETTLEMENT_SUBMITTED: "magenta",
    PaymentStatus.COMPLETED: "green",
    PaymentStatus.OVERPAID_REVIEW: "yellow",
    PaymentStatus.MANUAL_REVIEW: "yellow",
}
_WENT_WRONG = "red"
_FAINT = "bright_black"
_SHORTEST_BAR = 10
_NAME_WIDTH = max(map(len, SCENARIOS))
_STATUS_WIDTH = max(map(len, PaymentStatus))
_CLOCK_WIDTH = len("45.0 of 45 s")
_NOTE_WIDTH = len("confirming")
_GAP = 2


class Signs(NamedTuple):
    """The characters of a picture."""

    past: str = "━"
    ahead: str = "─"
    end: str = "●"
    done: str = "✓"
    following: str = "▸"
    later: str = "·"


PLAIN = Signs("=", "-", "*", "x", ">", ".")
"""For terminals that know ASCII only."""

Picture = Callable[[Signs], RenderableType]


class Bar:
    """A line with a color for each stretch of time: thick what has passed, thin what lies ahead.

    A full line is `axis` seconds; `color` tells the color of a moment.
    """

    def __init__(self, signs: Signs, elapsed: float, end: float, axis: float, color: Callable[[float], str]):
        self._signs = signs
        self._elapsed = elapsed
        self._end = end
        self._axis = axis
        self._color = color

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = options.max_width - 1
        line = Text()
        for cell in range(round(self._end / self._axis * cells)):
            moment = cell / cells * self._axis
            passed = moment < self._elapsed
            line.append(*((self._signs.past, self._color(moment)) if passed else (self._signs.ahead, _FAINT)))
        yield line.append(self._signs.end, self._color(self._end) if self._elapsed >= self._end else _FAINT)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(_SHORTEST_BAR, options.max_width)


def show(courses: Sequence[PaymentFollower], picture: Picture) -> None:
    """Draws `picture` again and again until all of `courses` have ended; the last one stays.

    Raises Refused, Unreachable.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an order can be named in any script
    console = Console(highlight=False)
    signs = PLAIN if console.options.ascii_only else Signs()
    with Live(console=console, auto_refresh=False) as live:
        for _ in follow(courses, REDRAW):
            live.update(picture(signs), refresh=True)


def one(course: PaymentFollower, signs: Signs) -> RenderableType:
    """One payment: what is asked for, its course, its confirmations, and every change."""
    payment = course.detail.payment
    attempt = payment.attempts[0]
    asked = attempt.instructions
    due = tokens(asked.amounts.due, asked.chain, asked.asset) or f"{asked.amounts.due} {asked.asset}"
    head = _line((payment.id, "bold"), f"  {printable(payment.order_id)}  {course.detail.scenario}")
    order = _line(f"{due} on {asked.chain} to {asked.invoice_address}")
    mock = _line(("a mock: nobody holds the key of this address", _FAINT))
    progress = _rows(None, _CLOCK_WIDTH, _NOTE_WIDTH)
    progress.add_row(_course_bar(course, signs, course.end), _clock(course), _speed(course))
    for deposit in attempt.deposits if isinstance(attempt.deposits, list) else []:
        progress.add_row(_confirmation_bar(deposit, signs), _confirmed(deposit), str(deposit.status))
    return Group(head, order, mock, "", progress, "", _changes(course, signs))


def many(courses: Sequence[PaymentFollower], title: str, signs: Signs) -> RenderableType:
    """Payments side by side, on one axis of time."""
    return Group(_line((title, "bold")), "", SideBySide(courses, signs))


class SideBySide:
    """A row with a bar for each payment. Where there is little room, the clocks go first, then the ends of
    the words, and the bars stay.
    """

    def __init__(self, courses: Sequence[PaymentFollower], signs: Signs) -> None:
        self._courses = courses
        self._signs = signs

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        words = options.max_width - _SHORTEST_BAR - 2 * _GAP
        with_clocks = words >= _NAME_WIDTH + _STATUS_WIDTH + _GAP + _CLOCK_WIDTH
        name = max(1, min(_NAME_WIDTH, words // 2))
        status = max(1, min(_STATUS_WIDTH, words - name))
        rows = _rows(name, None, status, *([_CLOCK_WIDTH] if with_clocks else []))
        axis = max(course.end for course in self._courses)
        for course in self._courses:
            name_of = _line(course.detail.scenario)
            clock = [_clock(course)] if with_clocks else []
            rows.add_row(name_of, _course_bar(course, self._signs, axis), _status(course), *clock)
        yield rows


def _line(*parts: str | tuple[str, str], justify: Literal["left", "right"] = "left") -> Text:
    """Text that is cut where it does not fit."""
    return Text.assemble(*parts, justify=justify, no_wrap=True, overflow="ellipsis")


def _rows(*widths: int | None) -> Table:
    """Columns of these widths, so that nothing moves but the bar; None takes what is left."""
    rows = Table.grid(padding=(0, _GAP, 0, 0), expand=True)
    for width in widths:
        rows.add_column(width=width, ratio=1 if width is None else None, no_wrap=True)
    return rows


def _course_bar(course: PaymentFollower, signs: Signs, axis: float) -> Bar:
    def color(moment: float) -> str:
        past = [entry for entry in course.timeline if entry.offset_seconds <= moment]
        return _color_of(past[-1].status)

    return Bar(signs, course.elapsed, course.end, axis, color)


def _confirmation_bar(deposit: Deposit, signs: Signs) -> Bar:
    required = deposit.confirmations_required
    color = _WENT_WRONG if deposit.status is DepositStatus.REJECTED else "cyan"
    return Bar(signs, deposit.confirmations, required, required, lambda _: color)


def _color_of(status: PaymentStatus) -> str:
    return _COLORS.get(status, _WENT_WRONG)


def _confirmed(deposit: Deposit) -> Text:
    return _line(f"{deposit.confirmations}/{deposit.confirmations_required}", justify="right")


def _status(course: PaymentFollower) -> Text:
    status = course.detail.payment.status
    return _line((status, f"bold {_color_of(status)}" if course.ended else _color_of(status)))


def _clock(course: PaymentFollower) -> Text:
    return _line(f"{course.elapsed:.1f} of {seconds(course.end)} s", justify="right")


def _speed(course: PaymentFollower) -> Text:
    return _line((f"speed {course.speed:g}" if course.speed else "frozen", _FAINT))


def _changes(course: PaymentFollower, signs: Signs) -> Table:
    offsets = [f"{seconds(entry.offset_seconds)} s" for entry in course.timeline]
    rows = Table.grid(padding=(0, _GAP, 0, 0))
    rows.add_column(width=1)
    rows.add_column(width=max(map(len, offsets)))
    following = next((entry for entry in course.timeline if not entry.reached), None)
    for offset, entry in zip(offsets, course.timeline, strict=True):
        sign = signs.done if entry.reached else signs.following if entry is following else signs.later
        style = "" if entry.reached or entry is following else _FAINT
        rows.add_row(
            _line((sign, "green" if entry.reached else style)),
            _line((offset, style), justify="right"),
            _line((entry.status, _color_of(entry.status) if entry.reached else style)),
            _line((what_happened(entry) + (_until(course, entry) if entry is following else ""), style)),
        )
    return rows


def _until(course: PaymentFollower, entry: TimelineEntry) -> str:
    if not course.speed:
        return ""
    left = (entry.offset_seconds - course.elapsed) / course.speed
    return f"{'  ' if what_happened(entry) else ''}in {left:.1f} s"
