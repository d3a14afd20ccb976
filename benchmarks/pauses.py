"""Pauses by the garbage collector during creations, with a million payments in memory.

    python -m benchmarks.pauses [--payments N] [--creations M] [--json FILE]

Fills two applications with N payments each (default 1,000,000), in a process with Python's default settings
and in one with those of `paymock serve`, and creates M more (default 100,000) without a socket.
Times are CPU times of the thread. It prints the duration of creations, the number and duration of
collections, the objects left to collect after as many refused creations, and the duration of a full
collection. It fails when a collection delayed a creation by more than MAX_PAUSE, or when more objects are
left than the threshold.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.inside import Client, application, fill
from harness.api_client import ORDER
from paymock.payments.records import PaymentRecord
from paymock.server import process
from paymock.stores.opening import open_store

DEFAULT, SERVER = "Python default", "paymock serve"
MAX_PAUSE = 10.0
"""Milliseconds."""


async def measure(payments: int, creations: int) -> dict[str, float]:
    """Figures of this process, times in milliseconds."""
    store = open_store("memory://", limits={PaymentRecord.KIND: payments + creations})
    await fill(store, range(payments))
    gc.collect()
    client, body = Client(application(store)), ORDER.encode()
    times: list[float] = []
    collections: list[float] = []
    started_at = 0.0

    def observe(phase: str, _: dict[str, int]) -> None:
        nonlocal started_at
        if phase == "start":
            started_at = time.thread_time()
        else:
            collections.append((time.thread_time() - started_at) * 1000)

    gc.callbacks.append(observe)
    for number in range(creations):
        started = time.thread_time()
        status = await client.post("/v1/payments", body, f"creation-{number}")
        times.append((time.thread_time() - started) * 1000)
        assert status == 201, status
    gc.callbacks.remove(observe)
    for number in range(creations):
        assert await client.post("/v1/payments", b"{}", f"refusal-{number}") == 422
    times.sort()
    started_at = time.thread_time()
    left = gc.collect()
    everything = (time.thread_time() - started_at) * 1000
    return {
        **{f"p{part}": times[int(len(times) * part / 100)] for part in (50, 99, 99.9)},
        "longest": times[-1],
        "collections": len(collections),
        "longest collection": max(collections, default=0),
        "percent": sum(collections) / sum(times) * 100,
        "left": left,
        "everything": everything,
    }


def in_process(name: str, payments: int, creations: int) -> dict[str, float]:
    """Figures of a new process."""
    command = [sys.executable, "-m", "benchmarks.pauses", "--alone", name]
    command += ["--payments", str(payments), "--creations", str(creations)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def main() -> None:
    """Print the table, and fail when pauses or garbage exceed the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payments", type=int, default=1_000_000)
    parser.add_argument("--creations", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--alone", choices=[DEFAULT, SERVER], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        if options.alone == SERVER:
            process.resume_collections()
        print(json.dumps(asyncio.run(measure(options.payments, options.creations))))
        return
    figures = {name: in_process(name, options.payments, options.creations) for name in (DEFAULT, SERVER)}
    print(f"{'ms of CPU time':<14}" + "".join(f"  {head:>7}" for head in figures[DEFAULT]))
    for name, of in figures.items():
        print(f"{name:<14}" + "".join(f"  {of[head]:>{max(7, len(head))}.2f}" for head in of))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if figures[SERVER]["longest collection"] > MAX_PAUSE:
        sys.exit(f"a collection delayed a creation by more than {MAX_PAUSE} ms")
    if figures[SERVER]["left"] > process.GC_THRESHOLDS[0]:
        sys.exit("more objects are left to collect than the threshold")


if __name__ == "__main__":
    main()
