"""What a store costs: creations and reads a second on each, as a ratio to the in-memory store of the run. It
goes the way of the others for that: without the fast lane, which is for stores that answer at once.

    python -m benchmarks.stores [--short] [--json FILE]

One server process on one core, wrk with 32 connections on another, the engine of Redis where the system wants
it; and two workers on all cores, beside wrk. The stores take turns; the figures are medians of the rounds. It
fails below the floors, and needs wrk and redis-server.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.load import CORES, Load, created, creations, median, need, paymock, reads
from harness.redis_engine import DURABLE, redis_server

MEMORY = "memory"
IN_THE_LANE = "memory, fast lane"
TWO = ", 2 workers"
FLOORS = {"sqlite full": (0.35, 0.65), "sqlite normal": (0.35, 0.65), "redis": (0.55, 0.55)}
"""Ratios to memory: creations, reads."""


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """The stores by name, fresh."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        engine = stack.enter_context(redis_server(*DURABLE))
        yield {
            IN_THE_LANE: "memory://",
            MEMORY: "memory://",
            "sqlite full": f"sqlite://{folder}/full.db",
            "sqlite normal": f"sqlite://{folder}/normal.db?synchronous=normal",
            "redis": engine.url,
            f"sqlite full{TWO}": f"sqlite://{folder}/shared.db",
            f"redis{TWO}": f"{engine.url}/1",
        }


def measured(name: str, url: str, seconds: float) -> tuple[Load, Load]:
    """Creations and reads on the store at `url`."""
    two = name.endswith(TWO)
    workers, cores = ("2", CORES) if two else ("1", CORES[:1])
    lane = () if name == IN_THE_LANE else ("--no-fast-path",)
    with paymock("--store", url, "--workers", workers, *lane, cores=cores) as server:
        payment_id = created(server.url)
        return creations(server, seconds), reads(server, seconds, payment_id)


def main() -> None:
    """Prints the table, and fails below the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="3 rounds of 2 seconds, not 5 of 5")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    need("wrk", "taskset")
    rounds, seconds = (3, 2) if options.short else (5, 5)
    runs: dict[str, list[tuple[Load, Load]]] = {}
    for number in range(rounds):
        with stores() as urls:
            for name, url in urls.items():
                if sys.stderr.isatty():
                    print(f"\rround {number + 1} of {rounds}: {name}    ", end="", file=sys.stderr)
                runs.setdefault(name, []).append(measured(name, url, seconds))
    figures = {
        name: tuple(median(list(loads)) for loads in zip(*of, strict=True)) for name, of in runs.items()
    }
    print(
        f"{'':<22} {'creations/s':>12} {'ratio':>6} {'p99 ms':>7}   {'reads/s':>8} {'ratio':>6} {'p99 ms':>7}"
    )
    missed = []
    for name, (create, read) in figures.items():
        ratios = [load.rate / base.rate for load, base in zip((create, read), figures[MEMORY], strict=True)]
        print(
            f"{name:<22} {create.rate:>12,.0f} {ratios[0]:>6.2f} {create.p99:>7.1f}   "
            f"{read.rate:>8,.0f} {ratios[1]:>6.2f} {read.p99:>7.1f}"
        )
        for what, ratio, floor in zip(("creations", "reads"), ratios, FLOORS.get(name, (0, 0)), strict=True):
            if ratio < floor:
                missed.append(f"{name}: {what} at {ratio:.2f}, floor {floor}")
    if options.json:
        document = {name: [asdict(load) for load in loads] for name, loads in figures.items()}
        options.json.write_text(json.dumps(document, indent=2) + "\n", encoding="utf-8")
    if missed:
        sys.exit("below the floors: " + "; ".join(missed))


if __name__ == "__main__":
    main()
