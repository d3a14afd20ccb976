"""The status diagram of a payment, drawn from the transitions that the rules make."""

from collections import defaultdict
from collections.abc import Iterable
from functools import cache
from itertools import chain, combinations_with_replacement, pairwise, product
from typing import NamedTuple

from paymock.rules.scenarios import (
    DEFAULT_SCENARIO,
    PAYMENT_WINDOW,
    SCENARIOS,
    PaymentStatus,
)
from paymock.rules.timeline import State, Transfer, World, simulate, timeline

DUE = 1010
OTHER_ASSET = "USDC"


class Transition(NamedTuple):
    """From one status to another; `scenarios` are those that take it, with the second of each."""

    before: PaymentStatus
    after: PaymentStatus
    scenarios: tuple[tuple[str, int], ...]


@cache
def transitions() -> list[Transition]:
    """All that the rules do in any scenario, and with any two transfers at any interesting time."""
    taken: defaultdict[tuple[PaymentStatus, PaymentStatus], list[tuple[str, int]]] = defaultdict(list)
    for name, scenario in SCENARIOS.items():
        for before, after in _moves(simulate(scenario, DUE, OTHER_ASSET)):
            taken[before.status, after.status].append((name, after.at // 1000))
    for before, after in chain.from_iterable(_moves(timeline(DUE, world)) for world in _worlds()):
        _ = taken[before.status, after.status]
    order = list(PaymentStatus)
    rows = [Transition(*pair, tuple(scenarios)) for pair, scenarios in taken.items()]
    return sorted(rows, key=lambda row: (order.index(row.before), order.index(row.after)))


def _moves(states: Iterable[State]) -> list[tuple[State, State]]:
    return [(before, after) for before, after in pairwise(states) if before.status is not after.status]


def _worlds() -> Iterable[World]:
    times = range(1_000, PAYMENT_WINDOW + 30_000, 3_000)
    transfers = [Transfer(at, amount) for at, amount in product(times, (DUE, DUE // 2, DUE * 11 // 10))]
    transfers += [Transfer(at, DUE, OTHER_ASSET) for at in times]
    for pair in combinations_with_replacement(transfers, 2):
        for payout_succeeds, review_hold in product((True, False), repeat=2):
            yield World(pair, payout_succeeds, review_hold)


# The picture: the happy path down on the left, what leaves it on the right, each where it first can.

_WIDTH, _ROW, _BOX, _HEIGHT, _GAP, _BEND = 880, 88, 196, 48, 280, 90
_LEFT, _TOP = 16, 16
_RIGHT = _LEFT + _BOX + _GAP

_STYLE = """
text { font: 13px ui-monospace, SFMono-Regular, Menlo, Consolas, monospace; fill: #1b2330; }
.back { fill: #fff; } .box { fill: #f5f6f8; stroke: #535d6e; }
.happy { stroke: #1f5fbf; } .good { stroke: #17703c; } .bad { stroke: #b3261e; } .held { stroke: #845400; }
.final { stroke-width: 3; } .way { fill: none; stroke: #535d6e; stroke-width: 1.5; }
.rare { stroke-dasharray: 5 4; } .tip { fill: #535d6e; } .when { font-size: 12px; fill: #535d6e; }
@media (prefers-color-scheme: dark) {
  text { fill: #e7ebf2; } .back { fill: #12161d; } .box { fill: #1b212b; stroke: #a8b3c5; }
  .happy { stroke: #8ab4ff; } .good { stroke: #6fd199; } .bad { stroke: #ff9d95; } .held { stroke: #f0c060; }
  .way { stroke: #a8b3c5; } .tip, .when { fill: #a8b3c5; }
}
"""
_LOOKS = {PaymentStatus.COMPLETED: "good", PaymentStatus.FAILED: "bad"}


def picture() -> str:
    """An SVG of all statuses and transitions."""
    rows = transitions()
    spine = [PaymentStatus.AWAITING_PAYMENT]
    spine += [after.status for _, after in _moves(simulate(SCENARIOS[DEFAULT_SCENARIO], DUE, OTHER_ASSET))]
    aside = [status for status in PaymentStatus if status not in spine]
    places = {status: (_LEFT, _TOP + row * _ROW) for row, status in enumerate(spine)}
    places |= {status: (_RIGHT, _TOP + row * _ROW) for row, status in enumerate(aside)}
    goes_on = {row.before for row in rows}
    height = _TOP * 2 + (max(len(spine), len(aside)) - 1) * _ROW + _HEIGHT
    parts = [
        f'<svg xmlns="http://www.w3.org/2000/svg" viewBox="0 0 {_WIDTH} {height}" role="img">',
        "<title>The statuses of a payment, and what leads from one to another</title>",
        f"<style>{_STYLE}</style>",
        '<defs><marker id="tip" viewBox="0 0 8 8" refX="8" refY="4" markerWidth="8" markerHeight="8"',
        'orient="auto"><path class="tip" d="M0 0 8 4 0 8z"/></marker></defs>',
        f'<rect class="back" width="{_WIDTH}" height="{height}" rx="8"/>',
    ]
    parts += [_way(row, places, rows) for row in rows]
    parts += [_box(status, places[status], spine, final=status not in goes_on) for status in places]
    return "\n".join([*parts, "</svg>", ""])


def _box(status: PaymentStatus, place: tuple[int, int], spine: list[PaymentStatus], *, final: bool) -> str:
    x, y = place
    look = _LOOKS.get(status, "happy" if status in spine else "held") + (" final" if final else "")
    return (
        f'<rect class="box {look}" x="{x}" y="{y}" width="{_BOX}" height="{_HEIGHT}" rx="6"/>'
        f'<text x="{x + _BOX / 2:g}" y="{y + _HEIGHT // 2 + 5}" text-anchor="middle">{status}</text>'
    )


def _way(row: Transition, places: dict[PaymentStatus, tuple[int, int]], rows: list[Transition]) -> str:
    (x, y), (to_x, to_y) = places[row.before], places[row.after]
    middle = y + _HEIGHT // 2
    if x == to_x == _LEFT:
        path = f"M{x + _BOX // 2} {y + _HEIGHT}V{to_y}"
        label = (x + _BOX // 2 + 8, (y + _HEIGHT + to_y) // 2 + 4, "start")
    elif x == to_x:
        edge, target = x + _BOX, to_y + _HEIGHT // 2
        path = f"M{edge} {middle}C{edge + _BEND} {middle} {edge + _BEND} {target} {edge} {target}"
        label = (edge + 20, middle - 4, "start")
    else:
        # The ways cross on the left of the gap, and run side by side on the right, where their names are.
        enters = [
            other.before for other in rows if other.after is row.after and places[other.before][0] < to_x
        ]
        enters.sort(key=lambda status: places[status][1])
        target = to_y + _HEIGHT * (enters.index(row.before) + 1) // (len(enters) + 1)
        leave, joint = x + _BOX, x + _BOX + _BEND
        half = leave + _BEND // 2
        path = f"M{leave} {middle}C{half} {middle} {half} {target} {joint} {target}H{to_x}"
        label = (to_x - 14, target - 4, "end")
    rare = "" if row.scenarios else " rare"
    way = f'<path class="way{rare}" d="{path}" marker-end="url(#tip)"/>'
    if not row.scenarios:
        return way
    names = [name for name, _ in row.scenarios]
    name, second = row.scenarios[0]
    condition = f"{second} s" if DEFAULT_SCENARIO in names else f"{name}, {second} s"
    return (
        f'{way}<text class="when" x="{label[0]}" y="{label[1]}" text-anchor="{label[2]}">{condition}</text>'
    )
