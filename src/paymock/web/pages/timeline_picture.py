"""The layout of the drawn timeline of a payment: templates/fragments/timeline.svg. The past is solid, the
future dashed, and a line marks the time, as long as something is to come. Everything is placed for one width.
The script of the page moves the line of now, and fills the bars up to it.
"""

from bisect import bisect_right
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

from paymock.rules.scenarios import DepositStatus
from paymock.schemas.control import JournalEntry, PaymentDetail, TimelineEntry
from paymock.text import format_seconds
from paymock.web.pages.templating import count

_LEFT, _RIGHT = 2, 16
_MAX_DEPOSITS, _MAX_MARKS = 8, 12

_Place = Callable[[float], float]
"""The place of a time, in pixels from the left."""


class ReadCount(NamedTuple):
    """How often the application read a state, and how often its requests failed while it lasted."""

    reads: int
    failures: int

    def __str__(self) -> str:
        reads = count(self.reads, "read")
        return f"{reads}, {count(self.failures, 'failure')}" if self.failures else reads


def ages(entries: Iterable[JournalEntry], created_at: str) -> Iterator[float]:
    """The age of a payment at its requests, oldest first: seconds on its own clock, which never goes back."""
    created, latest = datetime.fromisoformat(created_at), 0.0
    for entry in entries:
        of_sandbox = (datetime.fromisoformat(entry.virtual_at or created_at) - created).total_seconds()
        own = of_sandbox + (entry.payment_ahead_seconds or 0)
        latest = max(latest, own, entry.shown_offset_seconds or 0)
        yield latest


def read_counts(states: Sequence[TimelineEntry], entries: Sequence[JournalEntry]) -> list[ReadCount]:
    """What the application read in each of the states, as far as the `entries`, newest first, know."""
    found = [ReadCount(0, 0) for _ in states]
    oldest_first = entries[::-1]
    for entry, age in zip(oldest_first, ages(oldest_first, states[0].at), strict=True):
        current = bisect_right(states, age, key=lambda state: state.offset_seconds) - 1
        reads, failures = found[current]
        if entry.shown and entry.method == "GET":
            found[current] = ReadCount(reads + 1, failures)
        elif not entry.shown and (entry.error or entry.fault):
            found[current] = ReadCount(reads, failures + 1)
    return found


def timeline_picture(
    detail: PaymentDetail, seen: Sequence[ReadCount], age: float, width: int
) -> Mapping[str, object]:
    """The values of the template for a payment that is `age` seconds old, `width` pixels wide. `seen`: what
    `read_counts` returned; nothing if no request is known.
    """
    states = detail.timeline
    changes = [next(entries) for _, entries in groupby(states, lambda entry: entry.status)]
    offsets = {*(entry.offset_seconds for entry in states), detail.window_seconds}
    end = max(offsets) * 1.02
    places = width - _LEFT
    rooms = (  # to the right of the end, for the last labels
        places - (places - _text_width(entry.status)) / (entry.offset_seconds / end)
        for entry in changes
        if entry.offset_seconds
    )
    pixels = max(40, places - max([_RIGHT, *rooms])) / end

    def x(seconds: float) -> float:
        return round(_LEFT + min(seconds, end) * pixels, 2)

    numbers = [*dict.fromkeys(entry.deposit for entry in states if entry.deposit)]
    deposits = [
        (number, _captions([entry for entry in states if entry.deposit == number], x))
        for number in numbers[:_MAX_DEPOSITS]
    ]
    ends = [*(entry.offset_seconds for entry in changes[1:]), end]
    return {
        "x": x,
        "width": width,
        "age": age,
        "end": end,
        "pixels": pixels,
        "next": next((entry for entry in states if not entry.reached), None),
        "status": [entry.status for entry in states if entry.reached][-1],
        "statuses": [*zip(changes, ends, _label_levels(changes, x), strict=True)],
        "deposits": deposits,
        "more_deposits": max(0, len(numbers) - _MAX_DEPOSITS),
        "total": ReadCount(*(sum(one) for one in zip(*seen, strict=True))) if seen else None,
        "marks": _marks(states, seen, age, x),
        "axis": _axis(offsets, width, x),
    }


def _label_levels(changes: Sequence[TimelineEntry], x: _Place) -> Sequence[int]:
    """The first level below the bar where each label fits, found from the right to the left: the line from
    the bar to a label then never crosses another label.
    """
    levels: list[int] = []
    starts: list[float] = []  # of the leftmost label, by level
    for entry in reversed(changes):
        start = x(entry.offset_seconds)
        fits = (level for level, other in enumerate(starts) if start + _text_width(entry.status) <= other)
        level = next(fits, len(starts))
        starts[: level + 1] = [start] * (level + 1)
        levels.insert(0, level)
    return levels


def _captions(entries: Sequence[TimelineEntry], x: _Place) -> Sequence[tuple[TimelineEntry, bool]]:
    """The entries of a deposit, each with whether there is room for its caption."""
    final, free, captions = entries[-1], 0.0, []
    last = x(final.offset_seconds) - (34 if final.deposit_status == DepositStatus.REJECTED else 8)
    for entry in entries:
        at = x(entry.offset_seconds)
        has_room = entry is final or free <= at <= last - 12
        free = at + 16 if has_room else free
        captions.append((entry, has_room))
    return captions


def _marks(
    states: Sequence[TimelineEntry], seen: Iterable[ReadCount], age: float, x: _Place
) -> Iterator[tuple[TimelineEntry, ReadCount, Sequence[float], int]]:
    """The places of the reads of each state, and how many of them failed. They are spread over the time that
    the state was shown: the journal knows no more.
    """
    ends = [*(entry.offset_seconds for entry in states[1:]), age]
    for counted, entry, until in zip(seen, states, ends, strict=False):
        start, total = entry.offset_seconds, sum(counted)
        drawn, lasted = min(total, _MAX_MARKS), max(0, min(age, until) - start)
        reads = [max(x(0) + 4, x(start + (mark + 0.5) / drawn * lasted)) for mark in range(drawn)]
        yield entry, counted, reads, -(-drawn * counted.failures // (total or 1))


def _axis(offsets: Iterable[float], width: int, x: _Place) -> Iterator[tuple[float, float, str]]:
    """Seconds, their place, and the anchor of their caption if there is room for it."""
    free = 0.0
    for offset in sorted(offsets):
        at, anchor = x(offset), ""
        if at >= free:
            free = at + _text_width(f"{format_seconds(offset)} s") + 4
            anchor = "end" if free > width else "start"
        yield offset, at, anchor


def _text_width(text: str) -> float:
    """About how wide a text of 12 pixels is; rather too much, so that labels never touch."""
    return len(text) * 7.4 + 14
