"""What the garbage collector costs those who create payments while a million are stored in memory.

    python -m benchmarks.pauses [--payments N] [--creations M] [--json FILE]

Fills two applications with N payments each (default 1,000,000), one in a process with Python's own settings
and one with those of `paymock serve`, and creates M more (default 100,000) through ASGI, without a socket.
Times are of the CPU that the thread had, so other processes do not count. It prints how long creations take,
how often and how long the collector searches, and what it would find after as many refused creations: what
memory could grow by. It fails when the longest search takes more than a quarter of the longest with Python's
own settings, or when more is left than a search waits for.
"""

import argparse
import asyncio
import gc
import json
import subprocess
import sys
import time
from pathlib import Path

from benchmarks.load import API_KEY, ORDER
from benchmarks.scale import SANDBOX, fill

from paymock import collecting
from paymock.catalog_file import load_catalog
from paymock.clock import system_clock
from paymock.core import records
from paymock.core.records import PaymentRecord
from paymock.sandboxes import new_origin
from paymock.settings import Settings
from paymock.stores.opening import open_store
from paymock.web.app import App, create_app
from paymock.web.log import RequestLog

OWN, SERVED = "Python's own", "paymock serve"
MOST = 0.25
HEADERS = [
    (b"host", b"127.0.0.1:8402"),
    (b"authorization", b"Bearer " + API_KEY.encode()),
    (b"content-type", b"application/json"),
]
SCOPE = {"type": "http", "method": "POST", "raw_path": b"/v1/payments", "query_string": b""}


async def posted(app: App, key: str, body: bytes, status: int) -> float:
    """Milliseconds of CPU time for one creation."""
    replies: list[dict[str, object]] = []

    async def receive() -> dict[str, object]:
        return {"type": "http.request", "body": body, "more_body": False}

    async def send(message: dict[str, object]) -> None:
        replies.append(message)

    headers = [*HEADERS, (b"idempotency-key", key.encode()), (b"content-length", b"%d" % len(body))]
    started = time.thread_time()
    await app({**SCOPE, "headers": headers}, receive, send)
    spent = time.thread_time() - started
    assert replies[0]["status"] == status, replies
    return spent * 1000


async def measured(payments: int, creations: int) -> dict[str, float]:
    """The figures of this process."""
    clock, store = system_clock(), open_store("memory://", max_payments=payments + creations + 1)
    log, origin = RequestLog(None, requests=False), new_origin(0, 1, "pauses")
    app = create_app(Settings(), load_catalog(None), store, origin, clock, log)
    await posted(app, "the-first-one", ORDER.encode(), 201)
    [(_, stored)] = await store.page(SANDBOX, PaymentRecord.KIND, limit=1)
    record = records.decode(stored)
    assert isinstance(record, PaymentRecord)
    await fill(store, record, range(payments))
    gc.collect()
    searches: list[float] = []
    began = 0.0

    def watch(phase: str, _: dict[str, int]) -> None:
        nonlocal began
        if phase == "start":
            began = time.thread_time()
        else:
            searches.append((time.thread_time() - began) * 1000)

    gc.callbacks.append(watch)
    times = sorted(
        [await posted(app, f"creation-{number}", ORDER.encode(), 201) for number in range(creations)]
    )
    gc.callbacks.remove(watch)
    for number in range(creations):
        await posted(app, f"refusal-{number}", b"{}", 422)
    return {
        **{f"p{part}": times[int(len(times) * part / 100)] for part in (50, 99, 99.9)},
        "longest": times[-1],
        "searches": len(searches),
        "search": max(searches, default=0),
        "percent": sum(searches) / sum(times) * 100,
        "left": gc.collect(),
    }


def in_process(name: str, payments: int, creations: int) -> dict[str, float]:
    """The figures of a process of its own."""
    command = [sys.executable, "-m", "benchmarks.pauses", "--alone", name]
    command += ["--payments", str(payments), "--creations", str(creations)]
    run = subprocess.run(command, stdout=subprocess.PIPE, check=True)
    figures: dict[str, float] = json.loads(run.stdout)
    return figures


def main() -> None:
    """Prints the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--payments", type=int, default=1_000_000)
    parser.add_argument("--creations", type=int, default=100_000)
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--alone", choices=[OWN, SERVED], help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.alone:
        if options.alone == SERVED:
            collecting.resume()
        print(json.dumps(asyncio.run(measured(options.payments, options.creations))))
        return
    figures = {name: in_process(name, options.payments, options.creations) for name in (OWN, SERVED)}
    heads = ("p50", "p99", "p99.9", "longest", "searches", "longest", "share %", "left")
    print(f"{'ms of CPU time':<14}" + "".join(f"{head:>9}" for head in heads))
    for name, of in figures.items():
        print(f"{name:<14}" + "".join(f"{figure:>9.2f}" for figure in of.values()))
    if options.json:
        options.json.write_text(json.dumps(figures, indent=2) + "\n", encoding="utf-8")
    if figures[SERVED]["search"] > MOST * figures[OWN]["search"]:
        sys.exit(f"the longest search takes more than {MOST} of the time of Python's own longest")
    if figures[SERVED]["left"] > collecting.THRESHOLDS[0]:
        sys.exit("there is more garbage than one search waits for")


if __name__ == "__main__":
    main()
