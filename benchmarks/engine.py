"""How fast the rules are, alone: no server, no store, no clock.

    python -m benchmarks.engine [--json FILE] [--against FILE]

Timelines played and last states rendered as JSON, for each scenario and for a payment with all the deposits
that it can have; states found, requests accepted. Seconds are of CPU time. All take turns with a fixed loop
of plain Python: machines differ, ratios to it hardly. The figures are the best of the rounds: what else the
machine does makes the others worse. With `--against`, the JSON file of an earlier run, it fails when anything
has lost a quarter of its ratio.
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

from benchmarks.load import ORDER
from paymock.app.catalog_file import load_catalog
from paymock.resources import payments
from paymock.resources.records import PaymentRecord
from paymock.rules.scenarios import DEFAULT_SCENARIO, PAYMENT_WINDOW, SCENARIOS
from paymock.rules.timeline import State, Transfer, simulate, state_at

BASELINE = "baseline"
DEPOSITS = tuple(Transfer(number * 100, 1) for number in range(payments.MAX_DEPOSITS))
ROUNDS, SECONDS = 30, 0.01
LEAST_LEFT = 0.75


def baseline() -> None:
    """Work of the kind that the rules do, and that never changes: tuples through a heap."""
    agenda = [(number * 7919 % 101, str(number)) for number in range(50)]
    seen: dict[str, int] = {}
    heapq.heapify(agenda)
    while agenda:
        at, name = heapq.heappop(agenda)
        seen[name] = at + len(seen)


def rendered(record: PaymentRecord, state: State) -> bytes:
    """The payment in this state as JSON."""
    return msgspec.json.encode(payments.view(record, state))


def subjects() -> dict[str, tuple[Callable[[], object], int]]:
    """What is measured, and how many states it makes."""
    catalog, body = load_catalog(None), msgspec.json.decode(ORDER)
    measured: dict[str, tuple[Callable[[], object], int]] = {BASELINE: (baseline, 0)}
    cases = [(name, name, ()) for name in SCENARIOS] + [("most deposits", DEFAULT_SCENARIO, DEPOSITS)]
    for case, scenario, deposits in cases:
        creation = payments.Creation("0" * 32, bytes(16), scenario, now=1_900_000_000_000)
        accept = partial(payments.create_record, body, creation, catalog, 100)
        record = accept()
        timeline = partial(simulate, SCENARIOS[scenario], int(record.due), record.other_asset, deposits)
        states = timeline()
        measured[f"timeline {case}"] = timeline, len(states)
        measured[f"render {case}"] = partial(rendered, record, states[-1]), 0
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
    """Prints the table, and fails if too much of an earlier one is lost."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--against", type=Path, help="the figures of an earlier run")
    options = parser.parse_args()
    measured = subjects()
    runs = [{name: rate(call) for name, (call, _) in measured.items()} for _ in range(ROUNDS)]
    rates = {name: max(run[name] for run in runs) for name in measured}
    ratios = {name: best / rates[BASELINE] for name, best in rates.items()}
    print(f"{'':<28} {'a second':>10} {'ratio':>6} {'states/s':>9}")
    for name, (_, states) in measured.items():
        made = f"{rates[name] * states:>9,.0f}" if states else ""
        print(f"{name:<28} {rates[name]:>10,.0f} {ratios[name]:>6.3g} {made}".rstrip())
    if options.json:
        options.json.write_text(json.dumps({"rates": rates, "ratios": ratios}, indent=2) + "\n")
    before = json.loads(options.against.read_text())["ratios"] if options.against else {}
    left = {name: ratios[name] / before[name] for name in ratios if name in before}
    lost = [f"{name}: {part:.2f} of what it was" for name, part in left.items() if part < LEAST_LEFT]
    sys.exit("\n".join(lost) or None)


if __name__ == "__main__":
    main()
