"""Cost of waits, on each store: while other sandboxes change, in the sandbox itself, and to other tenants
while its time moves.

    python -m benchmarks.waits [--waits N] [--rate N] [--seconds S] [--in-one N] [--stores NAME,...]
        [--checkout DIRECTORY]

Sends N requests (default 3,000) that wait for a payment, in 20 sandboxes with frozen clocks, and then
creations and reads by turns to another sandbox, at a constant rate (default 50 a second). Prints the CPU time
of the server over S seconds (default 20), in percent of a core: with neither, with the creations and reads,
and with both. It fails if the waits cost more than 10 %.

Then N waits (default 1,000) of one sandbox: a third for payments, for orders, and for requests. Prints the
CPU time of a creation and of a read there, in microseconds, without and with the waits, and fails if it is
more than 3 times as much; and the latency of reads of another sandbox, in milliseconds, at rest, while the
time of the sandbox is moved four times a second, and while its clock runs so that all payments change at
once. Needs taskset and redis-server.
"""

import argparse
import http.client
import json
import resource
import socket
import statistics
import sys
import tempfile
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

from benchmarks.load import create_payment, paymock, require_tools
from harness.api_client import API_KEY, ORDER, call, request_headers
from harness.redis_engine import redis_server
from harness.server_process import ServerProcess

SANDBOXES = 20
WAIT_SECONDS = 60
SETTLE_SECONDS = 4.0
MOST_PERCENT = 10.0
MOST_TIMES = 3.0
CROWDED = "mk_test_waits_crowded"
PAYMENTS = 50
PAIRS = 1_000
"""How many creations and reads are sent to measure their CPU time."""


def main() -> None:
    """Print the tables, and fail above the limits."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waits", type=int, default=3_000)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--in-one", type=int, default=1_000)
    parser.add_argument("--stores", default="memory,sqlite,redis")
    parser.add_argument("--checkout", type=Path)
    options = parser.parse_args()
    require_tools("taskset", "redis-server")
    resource.setrlimit(
        resource.RLIMIT_NOFILE,
        (max(options.waits, options.in_one) + 500, resource.getrlimit(resource.RLIMIT_NOFILE)[1]),
    )
    missed = []
    with stores() as urls:
        chosen = {name: urls[name] for name in options.stores.split(",")}
        if options.waits:
            print(f"{'percent of a core':<20} {'idle':>8} {'requests':>10} {'and waits':>10}")
        for name, url in chosen.items() if options.waits else ():
            with paymock("--store", url, checkout=options.checkout) as server:
                idle = share(server, 0, options.seconds)
                alone = share(server, options.rate, options.seconds)
                with elsewhere(server, options.waits):
                    both = share(server, options.rate, options.seconds)
            print(f"{name:<20} {idle:8.2f} {alone:10.2f} {both:10.2f}", flush=True)
            if both - alone > MOST_PERCENT:
                missed.append(f"{name}: {options.waits} waits cost more than {MOST_PERCENT} % of a core")
        for name, url in chosen.items() if options.in_one else ():
            with paymock("--store", url, checkout=options.checkout) as server:
                missed += [f"{name}: {reason}" for reason in in_one_sandbox(name, server, options)]
    if missed:
        sys.exit("\n".join(missed))


def in_one_sandbox(name: str, server: ServerProcess, options: argparse.Namespace) -> Iterator[str]:
    """Print the figures of one store. Yield what is above its limit."""
    payments = [
        call(server.url, CROWDED, "POST", "/v1/payments", json.loads(ORDER), f"benchmark-wait-{number}")["id"]
        for number in range(PAYMENTS)
    ]
    call(server.url, CROWDED, "PUT", "/_mock/clock", {"speed": 0})
    costs(server)  # what the first requests cost more is not counted
    alone, idle = costs(server), latency(server, options.seconds)
    paths = [path for number in range(options.in_one // 3 + 1) for path in (
        f"/_mock/payments/{payments[number % PAYMENTS]}/wait?status=completed",
        f"/_mock/wait?order_id=order-{number}",
        f"/_mock/requests/wait?order_id=order-{number}",
    )]  # fmt: skip
    with waiting(server, [(CROWDED, path) for path in paths[: options.in_one]]):
        crowded = costs(server)
        with moving(server):
            moved = latency(server, options.seconds)
    with waiting(
        server, [(CROWDED, path) for path in paths[: options.in_one] if "status=" in path], ends=True
    ):
        call(server.url, CROWDED, "PUT", "/_mock/clock", {"speed": 30})
        running = latency(server, 5)
    times = [with_waits / without for with_waits, without in zip(crowded, alone, strict=True)]
    print(
        f"{name:<8} {options.in_one} waits: creation {alone[0]:.0f} -> {crowded[0]:.0f} us ({times[0]:.2f}), "
        f"read {alone[1]:.0f} -> {crowded[1]:.0f} us ({times[1]:.2f}); "
        f"p99 of another sandbox: {idle:.1f} ms, moved {moved:.1f} ms, running {running:.1f} ms",
        flush=True,
    )
    if max(times) > MOST_TIMES:
        yield f"{options.in_one} waits cost more than {MOST_TIMES} times"


def costs(server: ServerProcess) -> tuple[float, float]:
    """The server's CPU time for a creation and for a read in the crowded sandbox, in microseconds."""
    run, path = time.monotonic_ns(), ""
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    spent = []
    for method in ("POST", "GET"):
        before = server.tree.cpu_seconds
        for number in range(PAIRS):
            headers = request_headers({"Idempotency-Key": f"benchmark-{run}-{number}"}, CROWDED)
            connection.request(method, path or "/v1/payments", None if path else ORDER, headers)
            reply = connection.getresponse()
            body = reply.read()
        spent.append((server.tree.cpu_seconds - before) / PAIRS * 1e6)
        if method == "POST":
            path = f"/v1/payments/{json.loads(body)['id']}"
    connection.close()
    return spent[0], spent[1]


def latency(server: ServerProcess, seconds: float) -> float:
    """The 99th percentile of the latency of reads of another sandbox, 200 a second, in milliseconds."""
    path = f"/v1/payments/{create_payment(server.url)}"
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    latencies = []
    for _ in range(int(seconds * 200)):
        started = time.perf_counter()
        connection.request("GET", path, headers=request_headers({}, API_KEY))
        connection.getresponse().read()
        latencies.append((time.perf_counter() - started) * 1e3)
        time.sleep(0.005)
    connection.close()
    return statistics.quantiles(latencies, n=100)[98]


@contextmanager
def moving(server: ServerProcess) -> Iterator[None]:
    """Move the time of the crowded sandbox a little, four times a second."""
    stopped = Event()

    def move() -> None:
        while not stopped.wait(0.25):
            call(server.url, CROWDED, "POST", "/_mock/clock/advance", {"seconds": 0.001})

    thread = Thread(target=move)
    thread.start()
    try:
        yield
    finally:
        stopped.set()
        thread.join()


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """URLs of new stores by name."""
    with tempfile.TemporaryDirectory() as folder, redis_server() as engine:
        yield {"memory": "memory://", "sqlite": f"sqlite://{folder}/store.db", "redis": engine.url}


@contextmanager
def elsewhere(server: ServerProcess, number: int) -> Iterator[None]:
    """Keep so many requests waiting, in several sandboxes with frozen clocks."""
    waits = []
    for sandbox in range(SANDBOXES):
        key = f"mk_test_waits_{sandbox}"
        call(server.url, key, "PUT", "/_mock/clock", {"speed": 0})
        payment = call(server.url, key, "POST", "/v1/payments", json.loads(ORDER), "benchmark-wait")
        path = f"/_mock/payments/{payment['id']}/wait?status=completed"
        waits += [(key, path)] * len(range(sandbox, number, SANDBOXES))
    with waiting(server, waits):
        yield


@contextmanager
def waiting(server: ServerProcess, waits: Sequence[tuple[str, str]], *, ends: bool = False) -> Iterator[None]:
    """Keep requests for these paths with these keys waiting; `ends`: they may end within the block."""
    address = urlsplit(server.url)
    with ExitStack() as stack:
        connections = []
        for key, path in waits:
            head = f"GET {path}&timeout={WAIT_SECONDS} HTTP/1.1\r\nHost: {address.netloc}\r\n"
            connection = stack.enter_context(socket.create_connection((address.hostname, address.port), 60))
            connection.sendall(f"{head}Authorization: Bearer {key}\r\n\r\n".encode())
            connections.append(connection)
            time.sleep(0.002)  # each wait for an order begins with a search of all payments
        time.sleep(SETTLE_SECONDS)
        yield
        for connection in () if ends else connections:
            connection.setblocking(False)  # noqa: FBT003 - the name says it
            with suppress(BlockingIOError):
                sys.exit(f"a request did not wait: {connection.recv(2_000)!r}")


def share(server: ServerProcess, rate: int, seconds: float) -> float:
    """CPU usage of the server, in percent of a core, at so many requests per second of another sandbox."""
    create_payment(server.url)
    time.sleep(SETTLE_SECONDS)
    before = server.tree.cpu_seconds
    send_requests(server, rate, seconds)
    return (server.tree.cpu_seconds - before) / seconds * 100


def send_requests(server: ServerProcess, rate: int, seconds: float) -> None:
    """Send creations and reads by turns at a constant rate."""
    start = time.perf_counter()
    if not rate:
        time.sleep(seconds)
        return
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    path = f"/v1/payments/{create_payment(server.url)}"
    run = time.monotonic_ns()
    for number in count():
        due = start + number / rate
        if due - start >= seconds:
            break
        time.sleep(max(0.0, due - time.perf_counter()))
        headers = request_headers({"Idempotency-Key": f"benchmark-{run}-{number}"}, API_KEY)
        if number % 2:
            connection.request("GET", path, headers=headers)
        else:
            connection.request("POST", "/v1/payments", ORDER, headers)
        reply = connection.getresponse()
        reply.read()
        if reply.status not in (200, 201):
            sys.exit(f"request {number}: {reply.status}")
    connection.close()


if __name__ == "__main__":
    main()
