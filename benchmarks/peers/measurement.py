"""Start a server and measure it."""

import http.client
import json
import os
import re
import shlex
import signal
import socket
import subprocess
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import ENVIRONMENT, TimedProcess, measure_load
from benchmarks.peers.installation import ServerFiles
from benchmarks.peers.servers import Peer
from harness.api_client import request_headers
from harness.load import CORES, Load, fill
from harness.server_process import ServerProcess

WARM_UP = 1_000
"""Creations, and as many reads, before the measurement."""


class Figures(NamedTuple):
    """One run: milliseconds from the start to the first reply, megabytes then and after WARM_UP creations and
    reads; for creations and for reads the rate per second, the p99 latency in milliseconds and the CPU time
    in microseconds.
    """

    start: float
    megabytes: float
    warm: float
    created: float
    created_p99: float
    created_cpu: float
    read: float
    read_p99: float
    read_cpu: float


class Client:
    """A client with one keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def request(self, load: Load, values: Mapping[str, str] = {}) -> str:
        """Send one request. Returns the id in the reply, or that of DynamoDB's item in the request."""
        headers = {name: fill(value) for name, value in load.headers.items()}
        body = fill(load.body, values)
        self._connection.request(load.method, fill(load.path, values), body.encode() or None, headers)
        reply = self._connection.getresponse()
        content = reply.read()
        assert reply.status < 300, (load, reply.status, content)
        return str(json.loads(content).get("id") or "".join(re.findall(r"pay_\w+", body)[:1]))


@contextmanager
def running_server(peer: Peer, folder: Path, files: ServerFiles) -> Iterator[tuple[ServerProcess, float]]:
    """The server on one core, and the milliseconds until its first reply, of whatever status."""
    port, other = free_ports()
    with tempfile.TemporaryDirectory() as working_folder:
        files.write(Path(working_folder), port)
        command = ["taskset", "-c", str(CORES[0])]
        command += shlex.split(peer.command.format(port=port, other=other, files=working_folder))
        environment = {**ENVIRONMENT, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        timed = TimedProcess(command, cwd=working_folder, env=environment, start_new_session=True)
        process = timed.process
        try:
            while not replies(port):
                assert process.poll() is None, f"{peer.name} did not start: {' '.join(command)}"
                time.sleep(0.002)
            server = ServerProcess(process, {"url": f"http://127.0.0.1:{port}", "port": port})
            yield server, timed.milliseconds
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def replies(port: int) -> bool:
    """Whether a server replies on the port."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/", headers=request_headers())
        connection.getresponse().read()
    except ConnectionError:
        return False
    finally:
        connection.close()
    return True


def free_ports() -> tuple[int, int]:
    """Two unused ports."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


def measure(peer: Peer, folder: Path, files: ServerFiles, seconds: int) -> Figures:
    """Start the server, warm it up with sequential requests, then measure creations and reads."""
    with running_server(peer, folder, files) as (server, start):
        megabytes = server.tree.megabytes
        client = Client(server.port)
        if peer.setup:
            client.request(peer.setup)
        ids = [client.request(peer.create) for _ in range(WARM_UP)]
        for payment_id in ids:
            client.request(peer.read, {"id": payment_id})
        warm = server.tree.megabytes
        loads = peer.create, peer.read._replace(columns={"id": ids})
        results = [measure_load(server, seconds, load) for load in loads]
        rates = (figure for result in results for figure in (result.rate, result.p99, result.cpu))
        return Figures(start, megabytes, warm, *rates)
