"""How far one Redis goes: several servers on one engine, which syncs every write.

    python -m benchmarks.servers [--servers N,N] [--seconds S] [--payments N]

Each server has a port, and a wrk with 32 connections, of its own. The rates are those of all together: where
there are fewer cores than processes they show nothing but the machine, and the CPU times tell how many cores
each part needs. Then a request waits on each server, so that the engine tells it of each change; and at last
so many servers are told as `--followed` says, of which one serves.
"""

import argparse
import selectors
import socket
import threading
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, closing
from http.client import HTTPConnection
from urllib.parse import urlsplit

from benchmarks import payments
from benchmarks.load import paymock, require_tools
from harness.load import CORES, STORED_KEY, Load, create_load, read_load, run_wrk
from harness.process_info import cpu_seconds
from harness.redis_engine import DURABLE, RedisEngine, redis_server
from harness.server_process import ServerProcess
from paymock.stores.redis.scripts import CHANNEL


def measure(servers: Sequence[ServerProcess], engine: RedisEngine, seconds: int, load: Load) -> str:
    """Put the load on all servers at once, and return one line of figures."""

    def counters() -> list[float]:
        info = engine.execute("INFO", "everything")
        traffic = info["total_net_input_bytes"] + info["total_net_output_bytes"]
        spent = sum(server.tree.cpu_seconds for server in servers)
        return [spent * 1e6, cpu_seconds(engine.process.pid) * 1e6, traffic, info["used_memory"]]

    before = counters()
    with ThreadPoolExecutor(len(servers)) as pool:
        reports = [*pool.map(lambda server: run_wrk(server.url, seconds, load), servers)]
    total = sum(report.requests for report in reports)
    figures = [(after - former) / total for after, former in zip(counters(), before, strict=True)]
    assert not any(report.refused or report.broken for report in reports)
    rate = sum(report.requests / report.seconds for report in reports)
    p99 = max(report.p99 for report in reports)
    return f"{rate:>8,.0f} {p99:>7.1f} " + " ".join(f"{figure:>8,.0f}" for figure in figures)


def follow(server: ServerProcess) -> HTTPConnection:
    """Wait for a request that does not come, and return the connection."""
    connection = HTTPConnection(urlsplit(server.url).netloc)
    path = "/_mock/requests/wait?timeout=60"
    connection.request("GET", path, headers={"Authorization": f"Bearer {STORED_KEY}_idle"})
    return connection


def subscribe(engine: RedisEngine, number: int, stack: ExitStack) -> None:
    """Subscribe so many connections to the changes, until the stack is closed."""
    selector = stack.enter_context(selectors.DefaultSelector())
    for _ in range(number):
        connection = stack.enter_context(socket.create_connection(("127.0.0.1", engine.port)))
        connection.sendall(f"SUBSCRIBE {CHANNEL}\r\n".encode())
        selector.register(connection, selectors.EVENT_READ)
    ended = threading.Event()

    def read() -> None:
        while not ended.is_set():
            for key, _ in selector.select(0.1):
                key.fileobj.recv(65_536)  # type: ignore[union-attr]

    thread = threading.Thread(target=read)
    thread.start()
    stack.callback(thread.join)
    stack.callback(ended.set)


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--servers", default="1,2,4", help="numbers of servers")
    parser.add_argument("--seconds", type=int, default=5, help="of each load")
    parser.add_argument("--payments", type=int, default=payments.COUNT, help="stored ones")
    parser.add_argument("--followed", type=int, default=100, help="how many servers are told at last")
    options = parser.parse_args()
    require_tools("wrk", "taskset", "redis-server")
    print("servers  load       per s  p99 ms  per request: server µs, engine µs, network bytes, stored bytes")
    for number in map(int, options.servers.split(",")):
        with redis_server(*DURABLE) as engine, ExitStack() as stack:
            servers = [
                stack.enter_context(paymock("--store", engine.url, cores=CORES)) for _ in range(number)
            ]
            stored = payments.create_payments(servers[0].url, options.payments)
            loads = {"creations": create_load(), "reads": read_load(stored)}
            for name, load in loads.items():
                print(f"{number:>7}  {name:<9}", measure(servers, engine, options.seconds, load), flush=True)
            for server in servers:
                stack.enter_context(closing(follow(server)))
            line = measure(servers, engine, options.seconds, loads["creations"])
            print(f"{number:>7}  followed ", line, flush=True)
    with redis_server(*DURABLE) as engine, paymock("--store", engine.url) as server, ExitStack() as stack:
        subscribe(engine, options.followed, stack)
        line = measure([server], engine, options.seconds, create_load())
        print(f"{options.followed:>7}  followed ", line)


if __name__ == "__main__":
    main()
