"""How long the dearest requests of one API key hold up the reads of another, on each store.

    python -m benchmarks.fairness [--seconds S] [--runs N] [--stores NAME,...] [--checkout DIRECTORY]

One key has 100 payments whose courses have 100 transfers each, and sends the five dearest requests on
four connections: two lists, two pages and a story. Another key reads a payment 200 times a second. Prints
the latency of these reads in milliseconds: alone, and beside that. Of N runs (default 3), each of S seconds
(default 5), the best counts: on a busy machine the others measure its other work. Needs taskset and
redis-server.
"""

import argparse
import http.client
import json
import statistics
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from itertools import cycle
from pathlib import Path
from threading import Event, Thread
from urllib.parse import urlsplit

from benchmarks.load import create_payment, paymock, require_tools
from benchmarks.waits import stores
from harness.api_client import API_KEY, ORDER, call, request_headers
from harness.server_process import ServerProcess

DEAR = "mk_test_fairness_dear"
PAYMENTS = 100
CONNECTIONS = 4
COURSE = {"sending": [{"at": number / 4, "share": "1/100"} for number in range(100)]}
PATHS = (
    "/_mock/payments?limit=100",
    "/_mock/payments?limit=100&status=completed",
    "/fragments/payments",
    "/fragments/payments/{payment}",
    "/_mock/story",
)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--seconds", type=float, default=5)
    parser.add_argument("--runs", type=int, default=3)
    parser.add_argument("--stores", default="memory,sqlite,redis")
    parser.add_argument("--checkout", type=Path)
    options = parser.parse_args()
    require_tools("taskset", "redis-server")
    print(f"{'ms':<8} {'':<6} {'p50':>8} {'p99':>8} {'max':>8}  dear requests/s")
    with stores() as urls:
        for name in options.stores.split(","):
            with paymock("--store", urls[name], checkout=options.checkout) as server:
                payments = create_dear_payments(server)
                best: dict[str, tuple[Sequence[float], float]] = {}
                for _ in range(options.runs):
                    with dear_requests(server, payments, 0) as answered:
                        best["alone"] = least(best.get("alone"), read(server, options.seconds), answered)
                    with dear_requests(server, payments, CONNECTIONS) as answered:
                        best["beside"] = least(best.get("beside"), read(server, options.seconds), answered)
            for kind, ((p50, p99, longest), number) in best.items():
                rate = number / options.seconds
                print(f"{name:<8} {kind:<6} {p50:8.2f} {p99:8.2f} {longest:8.2f}  {rate:.1f}", flush=True)


def least(
    best: tuple[Sequence[float], float] | None, figures: Sequence[float], answered: Sequence[object]
) -> tuple[Sequence[float], float]:
    """The better of two runs by the 99th percentile, with the number of dear requests."""
    return best if best and best[0][1] <= figures[1] else (figures, len(answered))


def create_dear_payments(server: ServerProcess) -> list[str]:
    """The ids of new payments with COURSE, all of whose transfers have been observed."""
    call(server.url, DEAR, "POST", "/_mock/next", {"course": COURSE, "times": PAYMENTS})
    orders = [json.loads(ORDER) | {"order_id": f"dear-{number}"} for number in range(PAYMENTS)]
    ids = [
        str(call(server.url, DEAR, "POST", "/v1/payments", order, f"benchmark-{order['order_id']}")["id"])
        for order in orders
    ]
    call(server.url, DEAR, "POST", "/_mock/clock/advance", {"seconds": 3_000})
    return ids


@contextmanager
def dear_requests(server: ServerProcess, payments: Sequence[str], connections: int) -> Iterator[list[int]]:
    """Send the dear requests on so many connections within the block, and yield the sizes of the replies."""
    stopped, sizes = Event(), list[int]()

    def send(first: int) -> None:
        connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
        paths = cycle(PATHS[first % len(PATHS) :] + PATHS[: first % len(PATHS)])
        for payment in cycle(payments):
            if stopped.is_set():
                break
            connection.request("GET", next(paths).format(payment=payment), headers=request_headers({}, DEAR))
            reply = connection.getresponse()
            body = reply.read()
            assert reply.status == 200, body
            sizes.append(len(body))
        connection.close()

    threads = [Thread(target=send, args=(number,)) for number in range(connections)]
    for thread in threads:
        thread.start()
    try:
        yield sizes
    finally:
        stopped.set()
        for thread in threads:
            thread.join()


def read(server: ServerProcess, seconds: float) -> tuple[float, float, float]:
    """The median, the 99th percentile and the maximum of the latency of reads, in milliseconds."""
    path = f"/v1/payments/{create_payment(server.url)}"
    connection = http.client.HTTPConnection(urlsplit(server.url).netloc)
    latencies, end = [], time.perf_counter() + seconds
    while time.perf_counter() < end:
        started = time.perf_counter()
        connection.request("GET", path, headers=request_headers({}, API_KEY))
        connection.getresponse().read()
        latencies.append((time.perf_counter() - started) * 1e3)
        time.sleep(0.005)
    connection.close()
    if len(latencies) < 2:
        return latencies[0], latencies[0], latencies[0]
    return statistics.median(latencies), statistics.quantiles(latencies, n=100)[98], max(latencies)


if __name__ == "__main__":
    main()
