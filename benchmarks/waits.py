"""Cost of waits while other sandboxes change, on each store.

    python -m benchmarks.waits [--waits N] [--rate N] [--seconds S]

Sends N requests (default 3,000) that wait for a payment, in 20 sandboxes with frozen clocks, and then
creations and reads by turns to another sandbox, at a constant rate (default 50 a second). Prints the CPU time
of the server over S seconds (default 20), in percent of a core: with neither, with the creations and reads,
and with both. It fails if the waits cost more than 10 %. Needs taskset and redis-server.
"""

import argparse
import http.client
import json
import resource
import socket
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager, suppress
from itertools import count
from urllib.parse import urlsplit

from benchmarks.load import create_payment, paymock, require_tools
from harness.api_client import API_KEY, ORDER, call, request_headers
from harness.redis_engine import redis_server
from harness.server_process import ServerProcess

SANDBOXES = 20
WAIT_SECONDS = 60
SETTLE_SECONDS = 2.0
MOST_PERCENT = 10.0


def main() -> None:
    """Print the table, and fail above the limit."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--waits", type=int, default=3_000)
    parser.add_argument("--rate", type=int, default=50)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    require_tools("taskset", "redis-server")
    resource.setrlimit(
        resource.RLIMIT_NOFILE, (options.waits + 500, resource.getrlimit(resource.RLIMIT_NOFILE)[1])
    )
    print(f"{'percent of a core':<20} {'idle':>8} {'requests':>10} {'and waits':>10}")
    missed = []
    with stores() as urls:
        for name, url in urls.items():
            with paymock("--store", url) as server:
                idle = share(server, 0, options.seconds)
                alone = share(server, options.rate, options.seconds)
                with waiting(server, options.waits):
                    both = share(server, options.rate, options.seconds)
            print(f"{name:<20} {idle:8.2f} {alone:10.2f} {both:10.2f}", flush=True)
            if both - alone > MOST_PERCENT:
                missed.append(name)
    if missed:
        sys.exit(f"{options.waits} waits cost more than {MOST_PERCENT} % of a core: {', '.join(missed)}")


@contextmanager
def stores() -> Iterator[dict[str, str]]:
    """URLs of new stores by name."""
    with tempfile.TemporaryDirectory() as folder, redis_server() as engine:
        yield {"memory": "memory://", "sqlite": f"sqlite://{folder}/store.db", "redis": engine.url}


@contextmanager
def waiting(server: ServerProcess, number: int) -> Iterator[None]:
    """Keep so many requests waiting."""
    address = urlsplit(server.url)
    with ExitStack() as stack:
        connections = []
        for sandbox in range(SANDBOXES):
            key = f"mk_test_waits_{sandbox}"
            call(server.url, key, "PUT", "/_mock/clock", {"speed": 0})
            payment = call(server.url, key, "POST", "/v1/payments", json.loads(ORDER), "benchmark-wait")
            path = f"/_mock/payments/{payment['id']}/wait?status=completed&timeout={WAIT_SECONDS}"
            head = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {key}\r\n\r\n"
            for _ in range(sandbox, number, SANDBOXES):
                connection = stack.enter_context(
                    socket.create_connection((address.hostname, address.port), 60)
                )
                connection.sendall(head.encode())
                connections.append(connection)
        time.sleep(SETTLE_SECONDS)
        yield
        for connection in connections:
            connection.setblocking(False)  # noqa: FBT003 - the name says it
            with suppress(BlockingIOError):
                sys.exit(f"a request did not wait: {connection.recv(200)!r}")


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
