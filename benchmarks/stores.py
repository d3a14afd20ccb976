"""Speed of each store with the mix of `benchmarks.http`: creations, and reads of 20,000 payments.

    python -m benchmarks.stores [--rounds N] [--seconds S] [--payments N] [--json FILE]

Rates are also given as ratios to the in-memory store of the same run.

One server runs on the first core and wrk with 32 connections on the last; the Redis engine is not pinned.
Several servers on one port and one store run on the first cores: of two, they share one with wrk. The stores
take turns; the figures are medians. It fails below the floors, and needs wrk, taskset and redis-server.
"""

import argparse
import json
import re
import sys
import tempfile
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks import payments
from benchmarks.load import LoadResult, measure_load, median, paymock, require_tools, show_progress
from harness.load import CORES, create_load, read_load
from harness.redis_engine import DURABLE, free_port, redis_server
from harness.server_process import ServerProcess

MEMORY = "memory"
SEVERAL = re.compile(", ([0-9]+) servers")
FLOORS = {"sqlite full": (0.45, 0.45), "sqlite normal": (0.45, 0.45), "redis": (0.55, 0.45)}
"""Minimum ratios to memory: creations, reads, lowest on fast cores, where the system calls of a store count
more. Several servers have none: they may share a core with wrk.
"""


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """URLs of new stores by name."""
    with ExitStack() as stack:
        folder = stack.enter_context(tempfile.TemporaryDirectory())
        engine = stack.enter_context(redis_server(*DURABLE))
        yield {
            MEMORY: "memory://",
            "sqlite full": f"sqlite://{folder}/full.db",
            "sqlite normal": f"sqlite://{folder}/normal.db?synchronous=normal",
            "redis": engine.url,
            "sqlite full, 2 servers": f"sqlite://{folder}/shared.db",
            "redis, 2 servers": f"{engine.url}/1",
            "redis, 4 servers": f"{engine.url}/2",
        }


def start_servers(stack: ExitStack) -> dict[str, list[ServerProcess]]:
    """The servers of each store, by its name."""
    servers = {}
    for name, url in stack.enter_context(stores()).items():
        several = SEVERAL.search(name)
        count = int(several[1]) if several else 1
        arguments = ["--store", url]
        if several:
            arguments += ["--reuse-port", "--port", str(free_port())]
        if url.startswith("memory:"):
            arguments += ["--max-payments", "100000000"]
        servers[name] = [stack.enter_context(paymock(*arguments, cores=CORES[:count])) for _ in range(count)]
    return servers


def main() -> None:
    """Print the table, and fail below the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument("--payments", type=int, default=payments.COUNT, help="stored ones")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    require_tools("wrk", "taskset", "redis-server")
    runs: dict[str, list[tuple[LoadResult, LoadResult]]] = {}
    with ExitStack() as stack:
        servers = start_servers(stack)
        stored = {name: payments.create_payments(servers[name][0].url, options.payments) for name in servers}
        for number in range(options.rounds):
            for name, (server, *others) in servers.items():
                show_progress(f"round {number + 1} of {options.rounds}: {name}")
                create = measure_load(server, options.seconds, create_load(), *others)
                read = measure_load(server, options.seconds, read_load(stored[name]), *others)
                runs.setdefault(name, []).append((create, read))
    show_progress("")
    figures = {
        name: tuple(median(list(loads)) for loads in zip(*of, strict=True)) for name, of in runs.items()
    }
    columns = f"{'creations/s':>12} {'ratio':>6} {'p99 ms':>7}   {'reads/s':>8} {'ratio':>6} {'p99 ms':>7}"
    print(f"{'':<22} {columns}")
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
