"""Start a server and measure it."""

import http.client
import json
import os
import shlex
import signal
import socket
import tempfile
import time
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from pathlib import Path
from subprocess import Popen, TimeoutExpired
from typing import NamedTuple

from benchmarks.load import ENVIRONMENT, TimedProcess, measure_load
from benchmarks.peers.installation import ServerFiles
from benchmarks.peers.servers import Peer
from harness.load import CORES, Load, fill
from harness.process_info import cpu_nanoseconds
from harness.server_process import TIMEOUT_SECONDS, ServerProcess

STORED = 1_000
"""Payments that are read."""


class Figures(NamedTuple):
    """One run: milliseconds of CPU time from the start to the first good reply to a creation, megabytes then;
    for creations and for reads the microseconds of CPU time, and the rate per second.
    """

    start: float
    megabytes: float
    created_cpu: float
    read_cpu: float
    created: float
    read: float


class UnexpectedReplyError(Exception):
    """A reply with another status."""


class Client:
    """A client with one keep-alive connection."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def request(self, load: Load, status: int, values: Mapping[str, str] = {}) -> str:
        """Send one request. Returns the id in the reply. Raises OSError, HTTPException, and
        UnexpectedReplyError when the reply does not have this status.
        """
        headers = {name: fill(value) for name, value in load.headers.items()}
        try:
            self._connection.request(load.method, fill(load.path, values), fill(load.body) or None, headers)
            reply = self._connection.getresponse()
            content = reply.read()
        except (OSError, http.client.HTTPException):
            self._connection.close()
            raise
        if reply.status != status:
            raise UnexpectedReplyError(f"{load.method} {load.path}: {reply.status} {content!r}")
        return str(json.loads(content)["id"])


@contextmanager
def running_server(peer: Peer, modules: Path, files: ServerFiles) -> Iterator[ServerProcess]:
    """The server on one core, once it has replied to a creation as expected."""
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    with tempfile.TemporaryDirectory() as folder:
        files.write(Path(folder))
        fields = {"version": peer.version, "port": port, "files": folder, "modules": modules}
        command = ["taskset", "-c", str(CORES[0]), *shlex.split(peer.command.format(**fields))]
        environment = {**ENVIRONMENT, "PATH": f"{modules / '.bin'}{os.pathsep}{os.environ['PATH']}"}
        process = TimedProcess(command, cwd=folder, env=environment, start_new_session=True).process
        try:
            wait_for_creation(peer, port, process)
            yield ServerProcess(process, {"url": f"http://127.0.0.1:{port}", "port": port})
        finally:
            with suppress(ProcessLookupError):
                os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def wait_for_creation(peer: Peer, port: int, process: Popen[str]) -> None:
    """Return after the first reply to a creation that has the expected status."""
    client, deadline = Client(port), time.monotonic() + TIMEOUT_SECONDS
    while True:
        try:
            client.request(peer.create, peer.created)
        except (OSError, http.client.HTTPException, UnexpectedReplyError) as error:
            if process.poll() is not None or time.monotonic() > deadline:
                error.add_note(f"{peer.name} did not start")
                raise
            time.sleep(0.002)
        else:
            return


def measure(peer: Peer, modules: Path, files: ServerFiles, seconds: int) -> Figures:
    """Start the server, and measure creations and reads, after the same loads as a warm-up."""
    with running_server(peer, modules, files) as server:
        start, megabytes = sum(map(cpu_nanoseconds, server.tree.pids)) / 1e6, server.tree.megabytes
        client = Client(server.port)
        ids = [client.request(peer.create, peer.created) for _ in range(STORED)]
        client.request(peer.read, 200, {"id": ids[0]})
        loads = peer.create, peer.read._replace(columns={"id": ids})
        for _ in ("warm-up", "measurement"):
            created, read = (measure_load(server, seconds, load) for load in loads)
        return Figures(start, megabytes, created.cpu, read.cpu, created.rate, read.rate)
