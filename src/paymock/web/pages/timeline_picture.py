"""Draws the timeline of a payment as SVG: the past is solid, the future dashed, and a line marks the time, as
long as something is to come.

Everything is placed for one width. The script of the page moves the line of now, and fills the bars up to it.
"""

from collections.abc import Callable, Sequence
from typing import NamedTuple
from xml.etree import ElementTree as ET

from paymock.payments.checkout import VIEWS
from paymock.rules.scenarios import DepositStatus
from paymock.schemas.control import JournalEntry, PaymentDetail, TimelineEntry
from paymock.text import format_seconds
from paymock.web.pages.request_rows import ages
from paymock.web.pages.templating import count, duration

_LEFT, _RIGHT, _TOP, _BAR, _LINE, _GAP = 2, 16, 26, 16, 18, 14
_LANE = _LINE + _BAR + _LINE + 4
_MAX_DEPOSITS, _MAX_MARKS = 8, 12


class ReadCount(NamedTuple):
    """How often the application read a state, and how often its requests failed while it lasted."""

    reads: int
    failures: int

    def __str__(self) -> str:
        counts = [count(self.reads, "read"), *([count(self.failures, "failure")] if self.failures else [])]
        return ", ".join(counts)


class _Label:
    """A status below the bar of the statuses. Level 0 is just below the bar."""

    def __init__(self, entry: TimelineEntry) -> None:
        self.entry = entry
        self.text = entry.status
        self.level = 0


class _Scale:
    """Places seconds on the picture: from its left edge to `end`, with room for the last labels."""

    def __init__(self, width: float, end: float, labels: Sequence[_Label]) -> None:
        room: float = _RIGHT
        for label in labels:
            if at := label.entry.offset_seconds:
                room = max(room, width - _LEFT - (width - _LEFT - _width(label.text)) / (at / end))
        self.end = end
        self.pixels = max(40, width - _LEFT - room) / end

    def x(self, seconds: float) -> float:
        return _LEFT + min(seconds, self.end) * self.pixels


def read_counts(states: Sequence[TimelineEntry], entries: Sequence[JournalEntry]) -> list[ReadCount]:
    """Return what the application read in each of the states, as far as the `entries`, newest first, know."""
    found = [ReadCount(0, 0) for _ in states]
    oldest_first = entries[::-1]
    for entry, age in zip(oldest_first, ages(oldest_first, states[0].at), strict=True):
        current = sum(state.offset_seconds <= age for state in states) - 1
        reads, failures = found[current]
        if entry.shown and entry.method == "GET":
            found[current] = ReadCount(reads + 1, failures)
        elif not entry.shown and (entry.error or entry.fault):
            found[current] = ReadCount(reads, failures + 1)
    return found


class TimelinePicture:
    """The picture of a payment that is `age` seconds old, `width` pixels wide. `seen`: what `read_counts`
    returned, nothing if no request is known; not `all_seen`: of the newest requests only.
    """

    def __init__(
        self, detail: PaymentDetail, seen: Sequence[ReadCount], age: float, width: int, *, all_seen: bool
    ) -> None:
        states = detail.timeline
        self._states, self._closes, self._age, self._width = states, detail.window_seconds, age, width
        changes = [
            entry
            for previous, entry in zip((None, *states), states, strict=False)
            if previous is None or entry.status != previous.status
        ]
        self._next = next((entry for entry in states if not entry.reached), None)
        self._labels = [_Label(entry) for entry in changes]
        self._end = max(states[-1].offset_seconds, self._closes) * 1.02
        self._scale = _Scale(width, self._end, self._labels)
        self._root = ET.Element("svg", {"role": "img", "aria-label": self._summary()})
        self._texts = ET.Element("g")
        self._y: float = _TOP
        self._statuses()
        self._deposits()
        if seen:
            self._application(seen, "" if all_seen else "at least ")
        self._window()
        self._axis()
        if self._next:
            self._now()
        else:
            self._ended()
        self._root.append(self._texts)

    def svg(self) -> str:
        height = _number(self._y + 24)
        size = {"viewBox": f"0 0 {self._width} {height}", "width": f"{self._width}", "height": height}
        scale = {"left": _LEFT, "pixels": self._scale.pixels, "end": self._end, "age": self._age}
        if self._next:
            scale["next"] = self._next.offset_seconds
        self._root.attrib.update(size)
        self._root.attrib.update({f"data-{name}": f"{value}" for name, value in scale.items()})
        return ET.tostring(self._root, encoding="unicode", short_empty_elements=False)

    def _summary(self) -> str:
        status = [entry.status for entry in self._states if entry.reached][-1]
        then = "no changes remain"
        if self._next:
            then = f"next: {self._next.event}, at {format_seconds(self._next.offset_seconds)} s"
        return f"{status} at {duration(self._age)}; {then}. All steps are in the table below."

    def _statuses(self) -> None:
        labels = self._labels
        ends = [label.entry.offset_seconds for label in labels[1:]]
        for label, to in zip(labels, [*ends, self._end], strict=True):
            start, view = label.entry.offset_seconds, VIEWS[label.entry.status]
            self._bar(self._root, self._y, start, to, view.name, is_past=not self._next)
        levels = _place_labels(labels, self._scale.x)
        for label in labels:
            at, bottom = self._scale.x(label.entry.offset_seconds), self._y + _BAR + _LINE * (label.level + 1)
            ahead = "" if label.entry.reached else " ahead"
            name = f"label {VIEWS[label.entry.status].name}{ahead}"
            _add(self._root, "line", name, x1=at + 1, x2=at + 1, y1=self._y + _BAR, y2=bottom)
            self._text(at + 5, bottom - 1, label.text, name)
        self._y += _BAR + _LINE * levels + _GAP

    def _deposits(self) -> None:
        numbers = list(dict.fromkeys(entry.deposit for entry in self._states if entry.deposit))
        for number in numbers[:_MAX_DEPOSITS]:
            own = [entry for entry in self._states if entry.deposit == number]
            last = own[-1]
            text = f"Deposit {number}: {'' if last.reached else 'to be '}{last.deposit_status}"
            self._text(_LEFT, self._y + 12, text, "" if own[0].reached else "dim")
            self._deposit(own, self._y + _LINE)
            self._y += _LANE
        if len(numbers) > _MAX_DEPOSITS:
            text = f"{len(numbers) - _MAX_DEPOSITS} more deposits are in the table"
            self._text(_LEFT, self._y + 12, text, "dim")
            self._y += _LINE + 4

    def _deposit(self, own: Sequence[TimelineEntry], y: float) -> None:
        group = _add(self._root, "g", "deposit")
        self._bar(group, y, own[0].offset_seconds, own[-1].offset_seconds, "detected")
        rejected = own[-1].deposit_status == DepositStatus.REJECTED
        last = self._scale.x(own[-1].offset_seconds) - (34 if rejected else 8)  # its caption is always shown
        free = float("-inf")
        for entry in own:
            at, middle = self._scale.x(entry.offset_seconds), y + _BAR / 2
            is_rejection = entry.deposit_status == DepositStatus.REJECTED
            if is_rejection:
                tick = _add(group, "path", "cross", d=_cross(at, middle, 5))
            else:
                tick = _add(
                    group, "circle", "tick" if entry.reached else "tick future", cx=at, cy=middle, r=4
                )
            _add(tick, "title").text = f"{entry.event}, at {format_seconds(entry.offset_seconds)} s"
            if entry is own[-1] or (at >= free and at + 12 <= last):
                free = at + 16
                caption = "rejected" if is_rejection else f"{entry.confirmations}"
                name = "failed" if is_rejection else "confirmations"
                self._text(at, y + _BAR + 14, caption, name, "start" if entry is own[0] else "middle")

    def _application(self, seen: Sequence[ReadCount], bound: str) -> None:
        total = ReadCount(sum(one.reads for one in seen), sum(one.failures for one in seen))
        self._text(_LEFT, self._y + 12, f"Your application: {bound}{total}")
        self._marks(seen, self._y + _LINE + _BAR / 2)
        self._y += _LINE + _BAR + 6

    def _marks(self, seen: Sequence[ReadCount], y: float) -> None:
        """Draw the reads of each state, spread over the time that it was shown: the journal does not say when
        within it.
        """
        group = _add(self._root, "g", "seen")
        ends = [entry.offset_seconds for entry in self._states[1:]]
        for (reads, failures), entry, end in zip(seen, self._states, [*ends, self._age], strict=True):
            start, total = entry.offset_seconds, reads + failures
            to, drawn = max(start, min(self._age, end)), min(total, _MAX_MARKS)
            bad = min(failures, -(-drawn * failures // (total or 1)))
            title = (
                f"{count(reads, 'read')} and {count(failures, 'failure')} of the application "
                f"while {entry.status}"
            )
            for mark in range(drawn):
                at = max(self._scale.x(0) + 4, self._scale.x(start + (mark + 0.5) / drawn * (to - start)))
                if mark < bad:
                    shape = _add(group, "path", "cross", d=_cross(at, y, 4))
                else:
                    shape = _add(group, "circle", "read", cx=at, cy=y, r=3)
                _add(shape, "title").text = title

    def _window(self) -> None:
        self._text(_LEFT, self._y + 12, f"Payment window: closes at {format_seconds(self._closes)} s", "dim")
        self._bar(self._root, self._y + _LINE, 0, self._closes, "window")
        self._y += _LINE + _BAR + 8

    def _axis(self) -> None:
        x, y = self._scale.x, self._y
        _add(self._root, "line", "axis", x1=x(0), x2=x(self._end), y1=y, y2=y)
        free = float("-inf")
        for offset in sorted({*(entry.offset_seconds for entry in self._states), self._closes}):
            at, text = x(offset), f"{format_seconds(offset)} s"
            _add(self._root, "line", "axis", x1=at, x2=at, y1=y, y2=y + 5)
            if at >= free:
                free = at + _width(text) + 4
                self._text(at, y + 19, text, "dim", "end" if free > self._width else "start")

    def _now(self) -> None:
        _add(self._root, "line", "now", y1=_TOP - 8, y2=self._y)
        _add(self._texts, "text", "now-label", y=12)

    def _ended(self) -> None:
        offset = self._states[-1].offset_seconds
        at = self._scale.x(offset)
        anchor = "end" if at > self._width / 2 else "start"
        self._text(at, 12, f"ended at {format_seconds(offset)} s", "dim", anchor)

    def _bar(
        self, parent: ET.Element, y: float, start: float, to: float, name: str, *, is_past: bool = False
    ) -> None:
        """Draw a bar: dashed, and above it solid up to now, or wholly if it `is_past`."""
        group = _add(parent, "g", name)
        x = self._scale.x(start)
        width = max(0, self._scale.x(to) - x)
        _add(group, "rect", "future", x=x, y=y, height=_BAR, rx=4, width=width)
        solid = _add(group, "rect", "span", x=x, y=y, height=_BAR, rx=4, width=width if is_past else 0)
        if not is_past:
            solid.attrib.update({"data-from": f"{start}", "data-to": f"{to}"})

    def _text(self, x: float, y: float, text: str, name: str = "", anchor: str = "start") -> None:
        element = _add(self._texts, "text", name, x=x, y=y)
        element.attrib["text-anchor"] = anchor
        element.text = text


def _place_labels(labels: Sequence[_Label], x: Callable[[float], float]) -> int:
    """Give each label the first level below the bar where it fits, from the right to the left: the line from
    the bar to a label then never crosses another label. Return how many levels there are.
    """
    starts: list[float] = []  # of the leftmost label, by level
    for label in reversed(labels):
        start = x(label.entry.offset_seconds)
        end = start + _width(label.text)
        fitting = (level for level, other in enumerate(starts) if end <= other)
        label.level = next(fitting, len(starts))
        starts[: label.level + 1] = [start] * (label.level + 1)
    return len(starts)


def _width(text: str) -> float:
    """About how wide a text of 12 pixels is; rather too much, so that labels never touch."""
    return len(text) * 7.4 + 14


def _cross(x: float, y: float, size: int) -> str:
    across = 2 * size
    return f"M{_number(x - size)} {_number(y - size)}l{across} {across}m0 {-across}l{-across} {across}"


def _number(value: float) -> str:
    return f"{value:.2f}".rstrip("0").rstrip(".")


def _add(parent: ET.Element, tag: str, name: str = "", **attributes: float | str) -> ET.Element:
    values = {key: value if isinstance(value, str) else _number(value) for key, value in attributes.items()}
    return ET.SubElement(parent, tag, {**({"class": name} if name else {}), **values})
