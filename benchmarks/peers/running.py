"""Starts a server, and asks it."""

import http.client
import json
import os
import shlex
import signal
import socket
import subprocess
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import NamedTuple

from benchmarks.load import CORES, ENVIRONMENT, Load, Running, Watch, authorized, loaded
from benchmarks.peers.scratch import Files
from benchmarks.peers.servers import Call, Peer

WARMING = 1_000
"""Creations, and as many reads, before a server is measured."""


class Figures(NamedTuple):
    """What one run saw: milliseconds from the start to the first reply, megabytes then and after WARMING
    creations and reads; then the loads of creations and of reads: how many a second, milliseconds, and
    microseconds of CPU time.
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
    """One connection that is kept."""

    def __init__(self, port: int) -> None:
        self._connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)

    def ask(self, call: Call, payment_id: str = "") -> str:
        """The id in the reply, if there is one."""
        headers = authorized(call.headers) | {"Idempotency-Key": f"warming-{uuid.uuid4()}"}
        path = call.path.format(id=payment_id)
        self._connection.request(call.method, path, call.body.encode() or None, headers)
        reply = self._connection.getresponse()
        body = reply.read()
        assert reply.status < 300, (call, reply.status, body)
        return str(json.loads(body).get("id") or payment_id)


@contextmanager
def started(peer: Peer, folder: Path, given: Files) -> Iterator[tuple[Running, int, float]]:
    """The server on one core, its port, and the milliseconds until its first reply, whatever that says."""
    port, other = free_ports()
    with tempfile.TemporaryDirectory() as place:
        given.write(Path(place), port)
        command = ["taskset", "-c", str(CORES[0])]
        command += shlex.split(peer.command.format(port=port, other=other, files=place))
        environment = {**ENVIRONMENT, "PATH": f"{folder}{os.pathsep}{os.environ['PATH']}"}
        watch = Watch(command, cwd=place, env=environment, start_new_session=True)
        process = watch.process
        try:
            while not replies(port):
                assert process.poll() is None, f"{peer.name} did not start: {' '.join(command)}"
                time.sleep(0.002)
            yield Running(f"http://127.0.0.1:{port}", process.pid), port, watch.milliseconds
        finally:
            os.killpg(process.pid, signal.SIGTERM)
            try:
                process.wait(10)
            except subprocess.TimeoutExpired:
                os.killpg(process.pid, signal.SIGKILL)
                process.wait()


def replies(port: int) -> bool:
    """Whether anything answers there."""
    connection = http.client.HTTPConnection("127.0.0.1", port, timeout=30)
    try:
        connection.request("GET", "/", headers=authorized({}))
        connection.getresponse().read()
    except ConnectionError:
        return False
    finally:
        connection.close()
    return True


def free_ports() -> tuple[int, int]:
    """Two ports that nobody listens on."""
    with socket.create_server(("127.0.0.1", 0)) as one, socket.create_server(("127.0.0.1", 0)) as two:
        return one.getsockname()[1], two.getsockname()[1]


def measured(peer: Peer, folder: Path, given: Files, seconds: float) -> Figures:
    """One start, some requests one after the other, then both loads."""
    with started(peer, folder, given) as (server, port, start):
        megabytes = server.megabytes
        client = Client(port)
        if peer.first:
            client.ask(peer.first)
        payment_id = "pay_1"
        for _ in range(WARMING):
            payment_id = client.ask(peer.create, payment_id)
        for _ in range(WARMING):
            client.ask(peer.read, payment_id)
        warm = server.megabytes
        creations, reads = (load(server, seconds, call, payment_id) for call in (peer.create, peer.read))
        loads = (figure for of in (creations, reads) for figure in (of.rate, of.p99, of.cpu))
        return Figures(start, megabytes, warm, *loads)


def load(server: Running, seconds: float, call: Call, payment_id: str) -> Load:
    """What wrk sees."""
    headers = "\n".join(f"{name}: {value}" for name, value in call.headers.items())
    more = {"HEADERS": headers, "UNIQUE": uuid.uuid4().hex} | ({"BODY": call.body} if call.body else {})
    return loaded(server, seconds, call.method, call.path.format(id=payment_id), more)
