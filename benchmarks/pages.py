"""Cost of open pages for a server on which nothing changes, and for the requests of other keys.

    python -m benchmarks.pages [--pages N] [--payments N] [--interval S] [--seconds S]

On each store, N dashboards (default 100) of one sandbox with so many payments (default 5,000) poll the clock
every two seconds (--interval 1: every second), as their scripts do once nothing has changed for half a
minute. Prints the CPU time of the server without pages and with them, each for S seconds (default 20), and
how long a read with another key takes then. Needs taskset and redis-server.
"""

import argparse
import asyncio
import statistics
import tempfile
import time
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from http.client import HTTPConnection
from pathlib import Path
from threading import Thread
from urllib.parse import urlsplit

from benchmarks.load import paymock, require_tools
from benchmarks.payments import create_payments
from harness.api_client import request_headers
from harness.load import STORED_KEY
from harness.redis_engine import DURABLE, redis_server
from harness.server_process import ServerProcess

READS_PER_SECOND = 20
SETTLE_SECONDS = 2.0
"""After this time the server is idle again."""


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--pages", type=int, default=100)
    parser.add_argument("--payments", type=int, default=5_000)
    parser.add_argument("--interval", type=float, default=2)
    parser.add_argument("--seconds", type=float, default=20)
    options = parser.parse_args()
    require_tools("taskset", "redis-server")
    print("store    pages   % of a core   another key's read: p50 µs   p99 µs")
    for store in ("memory", "sqlite", "redis"):
        with ExitStack() as stack:
            server = stack.enter_context(paymock("--store", stack.enter_context(new_store(store))))
            create_payments(server.url, options.payments)
            for pages in (0, options.pages, 0, options.pages):
                with open_pages(server, pages, options.interval):
                    time.sleep(SETTLE_SECONDS)
                    share = idle_share(server, options.seconds)
                    p50, p99 = read_times(server, options.seconds)
                print(f"{store:<8} {pages:>5}   {share:>11.2f}   {p50:>26,.0f}   {p99:>6,.0f}", flush=True)


@contextmanager
def new_store(name: str) -> Iterator[str]:
    """The URL of an empty store."""
    with ExitStack() as stack:
        if name == "redis":
            yield stack.enter_context(redis_server(*DURABLE)).url
        elif name == "sqlite":
            yield f"sqlite:///{Path(stack.enter_context(tempfile.TemporaryDirectory())) / 'store.db'}"
        else:
            yield "memory://"


@contextmanager
def open_pages(server: ServerProcess, number: int, interval: float) -> Iterator[None]:
    """Poll from so many connections, each once in `interval` seconds, within the block."""
    loop = asyncio.new_event_loop()
    address = urlsplit(server.url)
    fields = {"Host": address.netloc, **request_headers(api_key=STORED_KEY)}.items()
    lines = ["GET /_mock/clock HTTP/1.1", *(f"{name}: {value}" for name, value in fields), "", ""]
    request = "\r\n".join(lines).encode()

    async def page(place: int) -> None:
        await asyncio.sleep(place / number * interval)
        reader, writer = await asyncio.open_connection(address.hostname, address.port)
        while True:
            writer.write(request)
            head = await reader.readuntil(b"\r\n\r\n")
            assert head.startswith(b"HTTP/1.1 200"), head
            await reader.readexactly(int(head.lower().partition(b"content-length: ")[2].partition(b"\r")[0]))
            await asyncio.sleep(interval)

    async def all_pages() -> None:
        await asyncio.gather(*map(page, range(number)))

    polling = loop.create_task(all_pages())
    thread = Thread(target=lambda: loop.run_until_complete(asyncio.wait([polling])))
    thread.start()
    try:
        yield
        assert not number or not polling.done(), polling
    finally:
        loop.call_soon_threadsafe(polling.cancel)
        thread.join()
        loop.close()


def idle_share(server: ServerProcess, seconds: float) -> float:
    """CPU usage of the server over so many seconds, in percent of a core."""
    before = server.tree.cpu_seconds
    time.sleep(seconds)
    return (server.tree.cpu_seconds - before) / seconds * 100


def read_times(server: ServerProcess, seconds: float) -> tuple[float, float]:
    """The median and the 99th percentile of the duration of a read with another key, in microseconds."""
    connection, taken = HTTPConnection(urlsplit(server.url).netloc), list[float]()
    for _ in range(round(seconds * READS_PER_SECOND)):
        time.sleep(1 / READS_PER_SECOND)
        began = time.perf_counter()
        connection.request("GET", "/v1/webhooks", headers=request_headers(api_key="mk_test_another"))
        connection.getresponse().read()
        taken.append((time.perf_counter() - began) * 1e6)
    return statistics.median(taken), statistics.quantiles(taken, n=100)[98]


if __name__ == "__main__":
    main()
