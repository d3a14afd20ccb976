"""What the garbage collector costs those who create payments while a million are stored in memory.

    python -m benchmarks.pauses [--payments N] [--creations M] [--json FILE]

Fills two applications with N payments each (default 1,000,000), one in a process with Python's own settings
and one with those of `paymock serve`, and creates M more (default 100,000) through ASGI, without a socket.
Times are of the CPU that the thread had, so other processes do not count. It prints how long creations take,
how often and how long the collector searches, what it would find after as many refused creations, which is
what memory could grow by, and how long a search of everything takes. It fails when a creation had to wait
longer than LONGEST for a search, or when more is left to find than a search waits for.
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
from benchmarks.load import ORDER
from paymock.resources.records import PaymentRecord
from paymock.server import garbage_collection
from paymock.stores.opening import open_store

OWN, SERVED = "Python's own", "paymock serve"
LONGEST = 10.0
"""Milliseconds."""


async def measured(payments: int, creations: int) -> dict[str, float]:
    """The figures of this process, times in milliseconds."""
    store = open_store("memory://", limits={PaymentRecord.KIND: payments + creations})
    await fill(store, range(payments))
    gc.collect()
    client, body = Client(application(store)), ORDER.encode()
    times: list[float] = []
    searches: list[float] = []
    began = 0.0

    def watch(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        else:
            searches.append((time.thread_time() - began) * 1000)

    gc.callbacks.append(watch)
    for number in range(creations):
        started = time.thread_time()
        status = await client.post("/v1/payments", body, f"creation-{number}")
        times.append((time.thread_time() - started) * 1000)
        assert status == 201, status
    gc.callbacks.remove(watch)
    for number in range(creations):
        assert await client.post("/v1/payments", b"{}", f"refusal-{number}") == 422
    times.sort()
    began = time.thread_time()
    left = gc.collect()
    everything = (time.thread_time() - began) * 1000
    return {
        **{f"p{part}": times[int(len(times) * part / 100)] for part in (50, 99, 99.9)},
        "longest": times[-1],
        "searches": len(searches),
        "longest search": max(searches, default=0),
        "percent": sum(searches) / sum(times) * 100,
        "left": left,
        "everything": everything,
    }


def in_process(name: str, payments: int, creations: int) -> dict[str, float]:
    """The figures of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.pauses", "--alone", name]
    command += ["--payments", str(payments), "--creations", str(creations)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def main() -> None:
    """Prints the table, and fails when pauses or garbage are beyond the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payments", type=int, default=1_000_000)
    parser.add_argument("--creations", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--alone", choices=[OWN, SERVED], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        if options.alone == SERVED:
            garbage_collection.resume()
        print(json.dumps(asyncio.run(measured(options.payments, options.creations))))
        return
    figures = {name: in_process(name, options.payments, options.creations) for name in (OWN, SERVED)}
    print(f"{'ms of CPU time':<14}" + "".join(f"  {head:>7}" for head in figures[OWN]))
    for name, of in figures.items():
        print(f"{name:<14}" + "".join(f"  {of[head]:>{max(7, len(head))}.2f}" for head in of))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if figures[SERVED]["longest search"] > LONGEST:
        sys.exit(f"a creation had to wait longer than {LONGEST} ms")
    if figures[SERVED]["left"] > garbage_collection.THRESHOLDS[0]:
        sys.exit("there is more garbage than a search waits for")


if __name__ == "__main__":
    main()
