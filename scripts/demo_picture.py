"""The moving picture of `paymock demo`: all scenarios side by side, drawn from their timelines."""

from collections.abc import Sequence
from itertools import pairwise

from paymock.payments.checkout import VIEWS
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.tables import example_states
from paymock.rules.timeline import State

SPEED, PAUSE = 8, 3
"""How fast the clock runs, and for how many seconds the end stays."""

_WIDTH, _ROW, _LEFT, _TOP, _BAR, _STATUS = 880, 28, 190, 58, 460, 680

_STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1b2330; }
.back { fill: #f5f6f8; } .future { stroke: #a0a8b6; stroke-width: 2; stroke-dasharray: 3 3; }
.title { font-weight: 700; } .pay { fill: #6b7484; } .detected, .received { fill: #1f5fbf; }
.complete { fill: #17703c; } .failed { fill: #b3261e; } .expired, .review { fill: #845400; }
@media (prefers-color-scheme: dark) {
  text { fill: #e7ebf2; } .back { fill: #12161d; } .future { stroke: #5a6578; }
  .pay { fill: #a8b3c5; } .detected, .received { fill: #8ab4ff; }
  .complete { fill: #6fd199; } .failed { fill: #ff9d95; } .expired, .review { fill: #f0c060; }
}
.bar, .at { animation: LENGTHs linear infinite; transform-box: fill-box; transform-origin: left; }
.at { animation-timing-function: step-end; }
@media (prefers-reduced-motion: reduce) {
  .bar, .at { animation: none; }
  .over { visibility: hidden; }
}
"""


def picture() -> str:
    """An SVG of the eight courses, which plays again and again; where motion is reduced, their ends."""
    rows = {name: example_states(scenario) for name, scenario in SCENARIOS.items()}
    axis = max(states[-1].at for states in rows.values())
    length = axis / 1000 / SPEED + PAUSE
    height = _TOP + len(rows) * _ROW
    drawing = _Drawing(axis, length)
    for number, (name, states) in enumerate(rows.items()):
        drawing.row(_TOP + number * _ROW, name, states)
    title = f"{len(rows)} payments, one for each scenario"
    return "\n".join(
        [
            f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
            f"<title>{title}: their statuses as time passes</title>",
            f"<style>{_STYLE.replace('LENGTH', f'{length:g}')}{''.join(drawing.animations.values())}</style>",
            f'<rect class="back" width="{_WIDTH}" height="{height}" rx="8"/>',
            f'<text class="title" x="16" y="26">{title}</text>',
            *drawing.parts,
            "</svg>",
            "",
        ]
    )


class _Drawing:
    """The rows. `axis`: milliseconds of the longest course; `length`: seconds of the picture."""

    def __init__(self, axis: int, length: float) -> None:
        self.parts: list[str] = []
        self.animations: dict[str, str] = {}
        self._axis = axis
        self._length = length

    def row(self, y: int, name: str, states: Sequence[State]) -> None:
        end, text_y = states[-1].at, y + 5
        self.parts.append(f'<text x="16" y="{text_y}">{name}</text>')
        self.parts.append(f'<path class="future" d="M{_LEFT} {y}H{self._x(end)}"/>')
        changes = [states[0], *(new for old, new in pairwise(states) if new.status is not old.status)]
        for state, to in zip(changes, [*(one.at for one in changes[1:]), None], strict=True):
            until = end if to is None else to
            grown, shown, x = self._grown(state.at, until), self._shown(state.at, to), self._x(state.at)
            look, size = VIEWS[state.status].name, f'width="{self._x(until) - x}" height="8"'
            self.parts.append(f'<rect class="bar {look} {grown}" x="{x}" y="{y - 4}" {size}/>')
            over = "" if to is None else " over"
            text = f'<text class="at {look} {shown}{over}" x="{_STATUS}" y="{text_y}">{state.status}</text>'
            self.parts.append(text)
        look = VIEWS[states[-1].status].name
        ended = self._shown(end, None)
        self.parts.append(f'<circle class="at {look} {ended}" cx="{self._x(end)}" cy="{y}" r="6"/>')

    def _x(self, at: int) -> int:
        return _LEFT + round(at / self._axis * _BAR)

    def _grown(self, start: int, to: int) -> str:
        """The class of what grows from one moment to another."""
        begin, end = self._percent(start), self._percent(to)
        return self._animated(
            f"b{start}-{to}", f"0%, {begin} {{ transform: scaleX(0) }} {end}, 100% {{ transform: none }}"
        )

    def _shown(self, start: int, to: int | None) -> str:
        """The class of what is there from one moment to another, or to the end."""
        steps = "0% { visibility: hidden } " if start else ""
        steps += f"{self._percent(start)} {{ visibility: visible }}"
        steps += f" {self._percent(to)} {{ visibility: hidden }}" if to is not None else ""
        return self._animated(f"s{start}-{to or ''}", steps)

    def _animated(self, name: str, steps: str) -> str:
        self.animations[name] = f"@keyframes {name} {{ {steps} }} .{name} {{ animation-name: {name}; }}\n"
        return name

    def _percent(self, moment: int) -> str:
        return f"{moment / 10 / SPEED / self._length:.4g}%"
