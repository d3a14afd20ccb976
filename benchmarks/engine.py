"""Speed of the rules alone: no server, no store, no clock.

    python -m benchmarks.engine [--json FILE] [--against FILE]

Measures timelines and JSON rendering for each scenario and for a payment with the maximum of deposits, state
lookups and validation of creations, in CPU time. Each figure is a ratio to a fixed loop of plain Python,
which makes machines comparable, and the best of several rounds, which excludes other load. With `--against`,
the JSON file of an earlier run, it fails when a ratio has dropped by a quarter.
"""

import argparse
import heapq
import json
import sys
import time
from collections.abc import Callable
from functools import partial
from pathlib import Path

import msgspec

from harness.api_client import ORDER
from paymock.payments import creation as creations
from paymock.payments import views
from paymock.payments.files import load_catalog
from paymock.payments.records import PaymentRecord
from paymock.rules.scenarios import DEFAULT_SCENARIO, PAYMENT_WINDOW, SCENARIOS
from paymock.rules.timeline import State, Transfer, simulate, state_at

BASELINE = "baseline"
DEPOSITS = tuple(Transfer(number * 100, 1) for number in range(views.MAX_DEPOSITS))
ROUNDS, SECONDS = 30, 0.01
MIN_RATIO = 0.75
"""Of the ratio of the earlier run."""


def baseline() -> None:
    """Fixed work of the same kind as the rules: tuples through a heap."""
    agenda = [(number * 7919 % 101, str(number)) for number in range(50)]
    result: dict[str, int] = {}
    heapq.heapify(agenda)
    while agenda:
        at, name = heapq.heappop(agenda)
        result[name] = at + len(result)


def render(record: PaymentRecord, state: State) -> bytes:
    """The payment in this state as JSON."""
    return msgspec.json.encode(views.view(record, state))


def subjects() -> dict[str, tuple[Callable[[], object], int]]:
    """What is measured, by name, and how many states one call produces."""
    catalog, body = load_catalog(None), msgspec.json.decode(ORDER)
    measured: dict[str, tuple[Callable[[], object], int]] = {BASELINE: (baseline, 0)}
    cases = [(name, name, ()) for name in SCENARIOS] + [("most deposits", DEFAULT_SCENARIO, DEPOSITS)]
    for case, scenario, deposits in cases:
        creation = creations.CreationContext("0" * 32, bytes(16), SCENARIOS[scenario], now=1_900_000_000_000)
        accept = partial(creations.create_record, body, creation, catalog, 100)
        record = accept()
        timeline = partial(simulate, SCENARIOS[scenario], int(record.due), record.other_asset, deposits)
        states = timeline()
        measured[f"timeline {case}"] = timeline, len(states)
        measured[f"render {case}"] = partial(render, record, states[-1]), 0
    return {**measured, "find a state": (partial(state_at, states, PAYMENT_WINDOW), 0), "accept": (accept, 0)}


def rate(call: Callable[[], object]) -> float:
    """Calls in a second of CPU time."""
    calls, started = 0, time.process_time()
    while (spent := time.process_time() - started) < SECONDS:
        for _ in range(10):
            call()
        calls += 10
    return calls / spent


def main() -> None:
    """Print the table, and fail when a ratio has dropped too far."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--against", type=Path, help="the figures of an earlier run")
    options = parser.parse_args()
    measured = subjects()
    runs = [{name: rate(call) for name, (call, _) in measured.items()} for _ in range(ROUNDS)]
    rates = {name: max(run[name] for run in runs) for name in measured}
    ratios = {name: best / rates[BASELINE] for name, best in rates.items()}
    print(f"{'':<28} {'per second':>10} {'ratio':>6} {'states/s':>9}")
    for name, (_, states) in measured.items():
        states_rate = f"{rates[name] * states:>9,.0f}" if states else ""
        print(f"{name:<28} {rates[name]:>10,.0f} {ratios[name]:>6.3g} {states_rate}".rstrip())
    if options.json:
        options.json.write_text(json.dumps({"rates": rates, "ratios": ratios}, indent=2) + "\n")
    before = json.loads(options.against.read_text())["ratios"] if options.against else {}
    changes = {name: ratios[name] / before[name] for name in ratios if name in before}
    slower = [
        f"{name}: {change:.2f} of the earlier ratio" for name, change in changes.items() if change < MIN_RATIO
    ]
    sys.exit("\n".join(slower) or None)


if __name__ == "__main__":
    main()
