"""How fast the service is over HTTP, as ratios to a baseline of the same run.

    python -m benchmarks.http [--short] [--json FILE]

The baseline is a plain ASGI application that answers every request with the same 900 bytes of JSON, on the
same uvicorn and the same event loop. Server and baseline run one process each on one core and take turns;
wrk with 32 kept connections is on another. Creations have a key each; a replay repeats one creation; a read
asks for a new payment, or for one that is completed. Journal and authorization are on, the log of requests is
off. The figures are medians of the rounds. It fails below the floors, and needs wrk and taskset.
"""

import argparse
import json
import subprocess
import sys
import time
import urllib.request
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import asdict
from functools import partial
from pathlib import Path

from benchmarks.load import (
    CORES,
    Load,
    Running,
    authorized,
    created,
    creations,
    loaded,
    median,
    need,
    paymock,
    reads,
    replays,
)

FLOORS = {"create": 0.50, "replay": 0.70, "read": 0.75, "read completed": 0.75}
"""The least ratios to the requests a second of the baseline."""

MOST_P99 = 3.0
"""The largest ratio to the p99 of the baseline."""

MOST_RUNS = 3
"""How many times as many rounds there are, at most, while a figure is below its floor."""

BASELINE = "baseline"
BODY = json.dumps({"id": "x" * 880}).encode()
DONE_SECONDS = 60


async def application(scope: Mapping[str, object], receive: object, send: object) -> None:
    """The baseline: the same reply to everything."""
    assert callable(send)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


@contextmanager
def baseline() -> Iterator[Running]:
    """The baseline on a free port."""
    code = (
        "import socket, sys, uvicorn; from benchmarks.http import application\n"
        "listening = socket.socket(socket.AF_INET, socket.SOCK_STREAM, socket.IPPROTO_TCP)\n"
        "listening.bind(('127.0.0.1', 0)); print(listening.getsockname()[1], flush=True)\n"
        "config = uvicorn.Config(application, http='httptools', lifespan='off', log_level='error')\n"
        "uvicorn.Server(config).run(sockets=[listening])\n"
    )
    command = ["taskset", "-c", str(CORES[0]), sys.executable, "-c", code]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        url = f"http://127.0.0.1:{process.stdout.readline().strip()}"
        try:
            while True:
                try:
                    urllib.request.urlopen(url).close()
                    break
                except OSError:
                    time.sleep(0.01)
            yield Running(url, process.pid)
        finally:
            process.terminate()


def completed(server: Running) -> str:
    """The id of a payment at its end."""
    payment_id = created(server.url)
    url = f"{server.url}/_mock/payments/{payment_id}/advance"
    body = json.dumps({"seconds": DONE_SECONDS}).encode()
    urllib.request.urlopen(urllib.request.Request(url, body, authorized({}))).close()
    return payment_id


def kinds(server: Running, plain: Running, ids: tuple[str, str]) -> dict[str, Callable[[float], Load]]:
    """What is measured, each for so many seconds."""
    return {
        BASELINE: lambda seconds: loaded(plain, seconds, "GET", "/", {}),
        "create": partial(creations, server),
        "replay": partial(replays, server),
        "read": lambda seconds: reads(server, seconds, ids[0]),
        "read completed": lambda seconds: reads(server, seconds, ids[1]),
    }


def failures(figures: Mapping[str, Load]) -> list[str]:
    """What is slower than it may be."""
    base = figures[BASELINE]
    slow = [
        f"{name}: {figures[name].rate / base.rate:.2f} of the baseline, the floor is {floor}"
        for name, floor in FLOORS.items()
        if figures[name].rate < floor * base.rate
    ]
    return slow + [
        f"{name}: p99 {figures[name].p99:.2f} ms, more than {MOST_P99} times that of the baseline"
        for name in FLOORS
        if figures[name].p99 > MOST_P99 * base.p99
    ]


def show(figures: Mapping[str, Load], megabytes: float) -> None:
    """Prints the table."""
    print(f"\n{'':<16} {'requests/s':>11} {'ratio':>6} {'p50 ms':>7} {'p99 ms':>7} {'CPU us':>7}")
    for name, load in figures.items():
        ratio = load.rate / figures[BASELINE].rate
        print(
            f"{name:<16} {load.rate:>11,.0f} {ratio:>6.2f} {load.p50:>7.2f} {load.p99:>7.2f} {load.cpu:>7.1f}"
        )
    print(f"resident after the run: {megabytes:.0f} MB")


def main() -> None:
    """Prints the table, and fails below the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="5 rounds of 1 second, not 7 of 5")
    parser.add_argument(
        "--no-fast-path", action="store_true", help="measure the server without its fast lane"
    )
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    need("wrk", "taskset")
    rounds, seconds = (5, 1) if options.short else (7, 5)
    runs: dict[str, list[Load]] = {}
    arguments = ["--max-payments", "100000000", *["--no-fast-path"] * options.no_fast_path]
    with paymock(*arguments) as server, baseline() as plain:
        measured = kinds(server, plain, (created(server.url), completed(server)))
        order = list(measured)
        for number in range(rounds * MOST_RUNS):
            if sys.stderr.isatty():
                print(f"\rround {number + 1}    ", end="", file=sys.stderr)
            for name in order:
                runs.setdefault(name, []).append(measured[name](seconds))
            order.append(order.pop(0))  # what disturbs a machine at intervals must not always meet the same
            figures = {name: median(runs[name]) for name in measured}
            if (number + 1) % rounds == 0 and not failures(figures):
                break  # otherwise it may be the machine: the median of more rounds tells
        megabytes = server.megabytes
    show(figures, megabytes)
    if options.json:
        rows = {name: asdict(load) for name, load in figures.items()}
        options.json.write_text(json.dumps({"figures": rows, "megabytes": megabytes}, indent=2) + "\n")
    if failures(figures):
        sys.exit("\n".join(failures(figures)))


if __name__ == "__main__":
    main()
