"""What open pages cost a server: when nothing changes, and while payments are created.

    python -m benchmarks.pages [--pages N] [--seconds S] [--rounds R]

Opens N pages (default 200), half of them dashboards and half checkouts, on 20 sandboxes: the connections that
they keep, on which the server pushes what changes. Then it measures the CPU time of the server while nothing
changes, for S seconds (default 20), with the clocks frozen and with the clocks running but all payments at
their end; and the speed of creations without pages, with pages on other sandboxes, and with pages on the same
sandbox, in turns, R times (default 5). Needs wrk and taskset.
"""

import argparse
import json
import socket
import statistics
import time
import urllib.request
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from urllib.parse import urlsplit

from benchmarks.load import API_KEY, ORDER, Running, creations, need, paymock

SANDBOXES = 20
PAYMENTS = 5
"""How many payments each sandbox has."""

LONG = 3_600
"""Seconds after which every payment is at its end."""

SETTLES = 1.0
"""Seconds until what opening the pages has cost is over."""


def main() -> None:
    """Prints the tables."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=200)
    parser.add_argument("--seconds", type=float, default=20)
    parser.add_argument("--rounds", type=int, default=5)
    options = parser.parse_args()
    need("wrk", "taskset")
    with paymock() as server:
        keys = [f"mk_test_page_{number}" for number in range(SANDBOXES)]
        payments = {key: [created(server.url, key, number) for number in range(PAYMENTS)] for key in keys}
        idle(server, keys, payments, options.pages, options.seconds)
        busy(server, keys, payments, options.pages, options.rounds)


def idle(
    server: Running, keys: Sequence[str], payments: dict[str, list[str]], pages: int, seconds: float
) -> None:
    """Prints what open pages cost while nothing changes, in percent of a core."""
    for key in keys:
        asked(server.url, key, "PUT", "/_mock/clock", {"speed": 0})
    print(f"no page, clocks frozen      {share(server, seconds):6.2f} % of a core")
    with opened(server, paths(keys, payments, pages)):
        print(f"{pages} pages, clocks frozen   {share(server, seconds):6.2f} % of a core", flush=True)
        for key in keys:
            asked(server.url, key, "POST", "/_mock/clock/advance", {"seconds": LONG})
            asked(server.url, key, "PUT", "/_mock/clock", {"speed": 1})
        print(f"{pages} pages, clocks running  {share(server, seconds):6.2f} % of a core", flush=True)


def busy(
    server: Running, keys: Sequence[str], payments: dict[str, list[str]], pages: int, rounds: int
) -> None:
    """Prints how open pages change the speed of creations."""
    same = [(API_KEY, "/_mock/events")] * pages
    cases = {
        "no page": [],
        f"{pages} on other sandboxes": paths(keys, payments, pages),
        "1 on this": same[:1],
    }
    cases[f"{pages} on this"] = same
    rates: dict[str, list[float]] = {name: [] for name in cases}
    for _ in range(rounds):
        for name, asked_for in cases.items():
            with opened(server, asked_for):
                rates[name].append(creations(server, 2).rate)
            asked(server.url, API_KEY, "POST", "/_mock/reset")
    base = statistics.median(rates["no page"])
    for name, found in rates.items():
        rate = statistics.median(found)
        print(f"creations, {name:<24} {rate:8.0f} a second, {rate / base:.2f}")


def paths(keys: Sequence[str], payments: dict[str, list[str]], pages: int) -> list[tuple[str, str]]:
    """The key and the path of each page's connection."""
    found = []
    for number in range(pages):
        key = keys[number % len(keys)]
        payment = payments[key][number % PAYMENTS]
        found.append((key, "/_mock/events" if number % 2 else f"/checkout/{payment}/events"))
    return found


@contextmanager
def opened(server: Running, wanted: Sequence[tuple[str, str]]) -> Iterator[None]:
    """Keeps a connection open for each page. Whatever comes is left to the system's buffers, as by a page
    that is busy.
    """
    address = urlsplit(server.url)
    with ExitStack() as stack:
        for key, path in wanted:
            page = stack.enter_context(socket.create_connection((address.hostname, address.port)))
            head = f"GET {path} HTTP/1.1\r\nHost: {address.netloc}\r\nAuthorization: Bearer {key}\r\n\r\n"
            page.sendall(head.encode())
            assert page.recv(12, socket.MSG_WAITALL) == b"HTTP/1.1 200", path
        time.sleep(SETTLES)
        yield
    time.sleep(SETTLES)


def share(server: Running, seconds: float) -> float:
    """The percentage of a core that the server takes for so many seconds."""
    time.sleep(SETTLES)
    before = server.cpu_seconds
    time.sleep(seconds)
    return (server.cpu_seconds - before) / seconds * 100


def created(url: str, key: str, number: int) -> str:
    """The id of a new payment of the sandbox."""
    return str(asked(url, key, "POST", "/v1/payments", json.loads(ORDER), f"benchmark-{number}")["id"])


def asked(
    url: str, key: str, method: str, path: str, body: object = None, idempotency_key: str = "unused-key"
) -> dict[str, object]:
    """What the server answers."""
    headers = {"Authorization": f"Bearer {key}", "Content-Type": "application/json"}
    headers["Idempotency-Key"] = idempotency_key
    sent = None if body is None else json.dumps(body).encode()
    with urllib.request.urlopen(urllib.request.Request(url + path, sent, headers, method=method)) as reply:
        text = reply.read()
    return json.loads(text) if text else {}


if __name__ == "__main__":
    main()
