"""Speed of each store: creations and reads per second, as ratios to the in-memory store of the same run.

The in-memory store is measured without the fast path for this, which the other stores cannot use.

    python -m benchmarks.stores [--short] [--json FILE]

One server process runs on one core and wrk with 32 connections on another; the Redis engine is not pinned.
Two workers share all cores with wrk. The stores take turns; the figures are medians. It fails below the
floors, and needs wrk and redis-server.
"""

import argparse
import json
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks.load import (
    CORES,
    LoadResult,
    create_payment,
    measure_creations,
    measure_reads,
    median,
    paymock,
    require_tools,
)
from harness.redis_engine import DURABLE, redis_server

MEMORY = "memory"
FAST_PATH = "memory, fast path"
TWO_WORKERS = ", 2 workers"
FLOORS = {"sqlite full": (0.35, 0.65), "sqlite normal": (0.35, 0.65), "redis": (0.55, 0.55)}
"""Minimum ratios to memory: creations, reads."""


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """URLs of new stores by name."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        engine = stack.enter_context(redis_server(*DURABLE))
        yield {
            FAST_PATH: "memory://",
            MEMORY: "memory://",
            "sqlite full": f"sqlite://{folder}/full.db",
            "sqlite normal": f"sqlite://{folder}/normal.db?synchronous=normal",
            "redis": engine.url,
            f"sqlite full{TWO_WORKERS}": f"sqlite://{folder}/shared.db",
            f"redis{TWO_WORKERS}": f"{engine.url}/1",
        }


def measure(name: str, url: str, seconds: float) -> tuple[LoadResult, LoadResult]:
    """Creations and reads on the store at `url`."""
    workers, cores = ("2", CORES) if name.endswith(TWO_WORKERS) else ("1", CORES[:1])
    fast_path = () if name == FAST_PATH else ("--no-fast-path",)
    with paymock("--store", url, "--workers", workers, *fast_path, cores=cores) as server:
        payment_id = create_payment(server.url)
        return measure_creations(server, seconds), measure_reads(server, seconds, payment_id)


def main() -> None:
    """Print the table, and fail below the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="3 rounds of 2 seconds, not 5 of 5")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    require_tools("wrk", "taskset")
    rounds, seconds = (3, 2) if options.short else (5, 5)
    runs: dict[str, list[tuple[LoadResult, LoadResult]]] = {}
    for number in range(rounds):
        with stores() as urls:
            for name, url in urls.items():
                if sys.stderr.isatty():
                    print(f"\rround {number + 1} of {rounds}: {name}    ", end="", file=sys.stderr)
                runs.setdefault(name, []).append(measure(name, url, seconds))
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
