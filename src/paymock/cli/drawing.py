"""Live display of payments on a terminal, with rich. NO_COLOR is honored."""

import io
import sys
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Literal, NamedTuple

from rich.console import Console, ConsoleOptions, Group, RenderableType, RenderResult
from rich.live import Live
from rich.measure import Measurement
from rich.table import Table
from rich.text import Text

from paymock.cli.live import PaymentFollower, follow
from paymock.cli.output import format_tokens
from paymock.client.text import escape_control, event_text, format_seconds
from paymock.rules.scenarios import SCENARIOS, DepositStatus, PaymentStatus
from paymock.schemas.public import Deposit

_REDRAW_SECONDS = 0.1

_COLORS = {
    PaymentStatus.AWAITING_PAYMENT: "white",
    PaymentStatus.PAYMENT_DETECTED: "blue",
    PaymentStatus.PAYMENT_FINALIZED: "cyan",
    PaymentStatus.SETTLEMENT_PENDING: "bright_blue",
    PaymentStatus.SETTLEMENT_SUBMITTED: "magenta",
    PaymentStatus.COMPLETED: "green",
    PaymentStatus.EXPIRED: "yellow",
    PaymentStatus.UNDERPAID_EXPIRED: "yellow",
    PaymentStatus.OVERPAID_REVIEW: "yellow",
    PaymentStatus.MANUAL_REVIEW: "yellow",
}
_ERROR_COLOR = "red"
_DIM = "bright_black"
_MIN_BAR_WIDTH = 10
_NAME_WIDTH = max(map(len, SCENARIOS))
_STATUS_WIDTH = max(map(len, PaymentStatus))
_CLOCK_WIDTH = len("45.0 of 45 s")
_DEPOSIT_STATUS_WIDTH = len("confirming")
_GAP = 2


class Symbols(NamedTuple):
    """The characters of a display."""

    past: str = "━"
    future: str = "─"
    end: str = "●"
    reached: str = "✓"
    next: str = "▸"
    upcoming: str = "·"


ASCII_SYMBOLS = Symbols("=", "-", "*", "x", ">", ".")


@dataclass
class Bar:
    """A progress bar: thick for the time that has passed, in the color of each moment, and thin for the rest.

    The full width is `axis` seconds; `color` returns the color of a moment.
    """

    symbols: Symbols
    elapsed: float
    end: float
    axis: float
    color: Callable[[float], str]

    def __rich_console__(self, console: Console, options: ConsoleOptions) -> RenderResult:
        cells = options.max_width - 1
        line = Text()
        for cell in range(round(self.end / self.axis * cells)):
            moment = cell / cells * self.axis
            if moment < self.elapsed:
                line.append(self.symbols.past, self.color(moment))
            else:
                line.append(self.symbols.future, _DIM)
        yield line.append(self.symbols.end, self.color(self.end) if self.elapsed >= self.end else _DIM)

    def __rich_measure__(self, console: Console, options: ConsoleOptions) -> Measurement:
        return Measurement(_MIN_BAR_WIDTH, options.max_width)


def show(followers: Sequence[PaymentFollower], render: Callable[[Symbols, int], RenderableType]) -> None:
    """Redraw the display until all payments have ended; the last state stays. `render` gets the width of the
    terminal. Raises Refused, Unreachable.
    """
    if isinstance(sys.stdout, io.TextIOWrapper):
        sys.stdout.reconfigure(errors="replace")  # an order id may be in any script
    console = Console(highlight=False)
    symbols = ASCII_SYMBOLS if console.options.ascii_only else Symbols()
    with Live(console=console, auto_refresh=False) as live:
        for _ in follow(followers, _REDRAW_SECONDS):
            live.update(render(symbols, console.width), refresh=True)


def payment_view(follower: PaymentFollower, symbols: Symbols) -> RenderableType:
    """One payment: its instructions, progress, confirmations and timeline."""
    payment = follower.detail.payment
    attempt = payment.attempts[0]
    instructions = attempt.instructions
    amount, chain, asset = instructions.amounts.due, instructions.chain, instructions.asset
    header = _wrapped(
        (payment.id, "bold"), f"  {escape_control(payment.order_id)}  {follower.detail.scenario}"
    )
    tokens = format_tokens(amount, chain, asset) or f"{amount} {asset}"
    due = _wrapped(f"{tokens} on {chain} to {instructions.invoice_address}")
    warning = _wrapped(("a mock: nobody holds the key of this address", _DIM))
    progress = _columns(None, _CLOCK_WIDTH, _DEPOSIT_STATUS_WIDTH)
    speed = f"speed {follower.speed:g}" if follower.speed else "frozen"
    progress.add_row(_progress_bar(follower, symbols, follower.end), _clock(follower), _line((speed, _DIM)))
    for deposit in attempt.deposits or ():
        confirmations = f"{deposit.confirmations}/{deposit.confirmations_required}"
        bar, count = _confirmation_bar(deposit, symbols), _line(confirmations, justify="right")
        progress.add_row(bar, count, str(deposit.status))
    return Group(header, due, warning, "", progress, _countdown(follower), _timeline(follower, symbols))


def overview(
    followers: Sequence[PaymentFollower], title: str, symbols: Symbols, width: int
) -> RenderableType:
    """Several payments side by side, on one time axis. On a narrow terminal, clocks are omitted and names
    truncated.
    """
    text_width = width - _MIN_BAR_WIDTH - 2 * _GAP
    with_clocks = text_width >= _NAME_WIDTH + _STATUS_WIDTH + _GAP + _CLOCK_WIDTH
    name_width = max(1, min(_NAME_WIDTH, text_width // 2))
    status_width = max(1, min(_STATUS_WIDTH, text_width - name_width))
    table = _columns(name_width, None, status_width, *([_CLOCK_WIDTH] if with_clocks else []))
    axis = max(follower.end for follower in followers)
    for follower in followers:
        name = _line(follower.detail.scenario)
        clock = [_clock(follower)] if with_clocks else []
        table.add_row(name, _progress_bar(follower, symbols, axis), _status(follower), *clock)
    return Group(_line((title, "bold")), "", table)


def _line(*parts: str | tuple[str, str], justify: Literal["left", "right"] = "left") -> Text:
    """One line of text, truncated where it does not fit."""
    return Text.assemble(*parts, justify=justify, no_wrap=True, overflow="ellipsis")


def _wrapped(*parts: str | tuple[str, str]) -> Text:
    """Text that is continued on further lines where it does not fit."""
    return Text.assemble(*parts, overflow="fold")


def _columns(*widths: int | None) -> Table:
    """A table of columns of fixed widths, so that only the bars move; None takes the remaining width."""
    table = Table.grid(padding=(0, _GAP, 0, 0), expand=True)
    for width in widths:
        table.add_column(width=width, ratio=1 if width is None else None, no_wrap=True)
    return table


def _progress_bar(follower: PaymentFollower, symbols: Symbols, axis: float) -> Bar:
    def color(moment: float) -> str:
        past = [entry for entry in follower.timeline if entry.offset_seconds <= moment]
        return _color(past[-1].status)

    return Bar(symbols, follower.elapsed, follower.end, axis, color)


def _confirmation_bar(deposit: Deposit, symbols: Symbols) -> Bar:
    required = deposit.confirmations_required
    color = _ERROR_COLOR if deposit.status is DepositStatus.REJECTED else "cyan"
    return Bar(symbols, deposit.confirmations, required, required, lambda _: color)


def _color(status: PaymentStatus) -> str:
    return _COLORS.get(status, _ERROR_COLOR)


def _status(follower: PaymentFollower) -> Text:
    status = follower.detail.payment.status
    return _line((status, _color(status) if follower.next_entry else f"bold {_color(status)}"))


def _clock(follower: PaymentFollower) -> Text:
    return _line(f"{follower.elapsed:.1f} of {format_seconds(follower.end)} s", justify="right")


def _timeline(follower: PaymentFollower, symbols: Symbols) -> Table:
    offsets = [f"{format_seconds(entry.offset_seconds)} s" for entry in follower.timeline]
    table = Table.grid(padding=(0, _GAP, 0, 0))
    table.add_column(width=1)
    table.add_column(width=max(map(len, offsets)))
    table.add_column(width=max(len(entry.status) for entry in follower.timeline))
    for offset, entry in zip(offsets, follower.timeline, strict=True):
        is_next = entry is follower.next_entry
        symbol = symbols.reached if entry.reached else symbols.next if is_next else symbols.upcoming
        style = "" if entry.reached or is_next else _DIM
        table.add_row(
            _line((symbol, "green" if entry.reached else style)),
            _line((offset, style), justify="right"),
            _line((entry.status, _color(entry.status) if entry.reached else style)),
            _wrapped((event_text(entry.event, entry.status), style)),
        )
    return table


def _countdown(follower: PaymentFollower) -> Text:
    """The real time until the next change; an empty line when there is none or the clock is frozen."""
    if follower.next_entry is None or not follower.speed:
        return _line("")
    left = (follower.next_entry.offset_seconds - follower.elapsed) / follower.speed
    return _line((f"next change in {left:.1f} s", _DIM))
