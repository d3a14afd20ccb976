"""Speed over HTTP, as ratios to a baseline of the same run.

    python -m benchmarks.http [--short] [--rounds N] [--seconds S] [--payments N] [--metrics]
                              [--store memory|sqlite|redis] [--beside CHECKOUT] [--json FILE]

First the mix: no two requests are alike. Each has a random payment out of 20,000 in all states, or an order
id, an amount and an idempotency key of its own, and a `traceparent`, and its headers in random order. Then
identical bytes, but for the keys of creations. Other servers can take turns with this one: with metrics, and
from another checkout of the project. Their ratios are to the baseline and to this server.

The baseline is a plain ASGI application that answers every request with the same 900 bytes of JSON, on
uvicorn and the same event loop; it gets identical requests with two headers. Servers and baseline are
single processes on one core and take turns; wrk with 32 keep-alive connections runs on another core. Journal
and authorization are on, the access log is off. The figures are medians. It fails below the floors, and needs
wrk and taskset.
"""

import argparse
import json
import subprocess
import sys
import tempfile
import urllib.request
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict
from pathlib import Path

from benchmarks import payments
from benchmarks.load import LoadResult, measure_load, median, paymock, require_tools, show_progress
from harness.api_client import API_KEY
from harness.load import CORES, Load, Payment, create_load, read_load, replay_load
from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.server_process import ServerProcess

FLOORS = {"create": 0.20, "replay": 0.25, "read": 0.33, "attempts": 0.38}
"""Minimum ratios to the request rate of the baseline, for the mix. The ratio depends on the processor: the
floors leave room for that, and none for a request that takes twice as long.
"""

MAX_P99 = 4.0
"""Maximum ratio to the p99 latency of the baseline, for the mix."""

MAX_REPEATS = 3
"""The rounds are repeated at most so many times while a figure is below its floor."""

BASELINE, PAYMOCK, METRICS, BESIDE = "baseline", "paymock", "metrics", "beside"
BODY = json.dumps({"id": "x" * 880}).encode()

Case = tuple[str, str]
"""The names of a server and of a load."""


async def application(scope: Mapping[str, object], receive: object, send: object) -> None:
    """The baseline: one reply to every request."""
    assert callable(send)
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(BODY))]
    await send({"type": "http.response.start", "status": 200, "headers": headers})
    await send({"type": "http.response.body", "body": BODY})


@contextmanager
def baseline() -> Iterator[ServerProcess]:
    """The baseline application on a free port."""
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
        port = int(process.stdout.readline())
        server = ServerProcess(process, {"url": f"http://127.0.0.1:{port}", "port": port})
        try:
            wait_until(lambda: replies(server.url))
            yield server
        finally:
            process.terminate()


def replies(url: str) -> bool:
    """Whether a server replies at `url`."""
    try:
        urllib.request.urlopen(url).close()
    except OSError:
        return False
    return True


def loads(stored: Sequence[Payment]) -> dict[str, Load]:
    """The measured loads, by name."""
    return {
        "create": create_load(),
        "replay": replay_load(stored),
        "read": read_load(stored),
        "attempts": read_load(stored, "/v1/payments/<id>/attempts"),
        "read of one payment": read_load(stored[:1]),
        "identical create": create_load(varied=False),
        "identical replay": replay_load(stored[:1], varied=False),
        "identical read": read_load(stored[:1], varied=False),
    }


def failures(figures: Mapping[Case, LoadResult]) -> list[str]:
    """Figures beyond their limits."""
    base, own = figures[BASELINE, BASELINE], {name: figures[PAYMOCK, name] for name in FLOORS}
    slow = [
        f"{name}: {own[name].rate / base.rate:.2f} of the baseline, the floor is {floor}"
        for name, floor in FLOORS.items()
        if own[name].rate < floor * base.rate
    ]
    return slow + [
        f"{name}: p99 {load.p99:.2f} ms, more than {MAX_P99} times that of the baseline"
        for name, load in own.items()
        if load.p99 > MAX_P99 * base.p99
    ]


def show(figures: Mapping[Case, LoadResult], others: Sequence[str]) -> None:
    """Print the table: of `others`, the rates, and their ratios to the baseline and to this server."""
    base = figures[BASELINE, BASELINE]
    columns = "".join(f" {name:>11} {'ratio':>6} {'to this':>7}" for name in others)
    print(f"{'':<20} {'requests/s':>11} {'ratio':>6} {'p50 ms':>7} {'p99 ms':>7} {'CPU us':>7}{columns}")
    for (server, name), load in figures.items():
        if server in others:
            continue
        row = f"{name:<20} {load.rate:>11,.0f} {load.rate / base.rate:>6.2f}"
        row += f" {load.p50:>7.2f} {load.p99:>7.2f} {load.cpu:>7.1f}"
        for result in (figures[other, name] for other in others if server == PAYMOCK):
            row += f" {result.rate:>11,.0f} {result.rate / base.rate:>6.2f} {result.rate / load.rate:>7.2f}"
        print(row)


def start_servers(stack: ExitStack, options: argparse.Namespace) -> dict[str, ServerProcess]:
    """The measured servers, by name."""

    def store() -> tuple[str, ...]:
        if options.store == "sqlite":
            return "--store", f"sqlite://{stack.enter_context(tempfile.TemporaryDirectory())}/store.db"
        if options.store == "redis":
            return "--store", stack.enter_context(redis_server(*DURABLE)).url
        return "--max-payments", "100000000"

    servers = {PAYMOCK: paymock(*store())}
    if options.metrics:
        servers[METRICS] = paymock(*store(), "--metrics-address", "127.0.0.1:0")
    if options.beside:
        servers[BESIDE] = paymock(*store(), checkout=options.beside)
    return {name: stack.enter_context(server) for name, server in servers.items()}


def measure(
    cases: Mapping[Case, tuple[ServerProcess, Load]], rounds: int, seconds: int
) -> dict[Case, LoadResult]:
    """The medians, of more rounds if a figure is beyond its limit: other load may be the reason."""
    runs: dict[Case, list[LoadResult]] = {case: [] for case in cases}
    order, figures = list(cases), {}
    for number in range(rounds * MAX_REPEATS):
        show_progress(f"round {number + 1}")
        for case in order:
            server, load = cases[case]
            runs[case].append(measure_load(server, seconds, load))
        order.append(order.pop(0))  # periodic load must not always hit the same measurement
        figures = {case: median(results) for case, results in runs.items()}
        if (number + 1) % rounds == 0 and not failures(figures):
            break
    show_progress("")
    return figures


def main() -> None:
    """Print the table, and fail below the floors."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--short", action="store_true", help="5 rounds of 1 second, of the mix alone")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument("--payments", type=int, default=payments.COUNT, help="stored ones")
    parser.add_argument("--store", choices=("memory", "sqlite", "redis"), default="memory")
    parser.add_argument("--metrics", action="store_true", help="measure with metrics, too")
    parser.add_argument("--beside", type=Path, metavar="CHECKOUT", help="measure another checkout, too")
    parser.add_argument("--json", type=Path, help="write the figures here")
    options = parser.parse_args()
    require_tools("wrk", "taskset")
    rounds, seconds = (5, 1) if options.short else (options.rounds, options.seconds)
    with ExitStack() as stack:
        servers = start_servers(stack, options)
        bare = Load("GET", "/", headers={"Authorization": f"Bearer {API_KEY}"}, varied=False)
        cases = {(BASELINE, BASELINE): (stack.enter_context(baseline()), bare)}
        for server, process in servers.items():
            stored = payments.create_payments(process.url, options.payments)
            for name, load in loads(stored).items():
                if name in FLOORS or not options.short:
                    cases[server, name] = process, load
        figures = measure(cases, rounds, seconds)
        megabytes = servers[PAYMOCK].tree.megabytes
    show(figures, [name for name in servers if name != PAYMOCK])
    print(f"resident after the run: {megabytes:.0f} MB")
    if options.json:
        rows = {", ".join(case): asdict(load) for case, load in figures.items()}
        options.json.write_text(json.dumps({"figures": rows, "megabytes": megabytes}, indent=2) + "\n")
    if options.store == "memory" and failures(figures):
        sys.exit("\n".join(failures(figures)))


if __name__ == "__main__":
    main()
