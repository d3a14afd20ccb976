"""Redis engines and clusters on free ports of 127.0.0.1, each in a temporary folder."""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from pathlib import Path
from typing import Any

from redis import Redis
from redis.backoff import NoBackoff
from redis.retry import Retry

from harness.polling import wait_until

ENGINE_TIMEOUT_SECONDS = 60
"""After this time an engine or a cluster that does not answer counts as failed."""

SLOTS = 16384

_BUS_OFFSET = 10_000
"""From the port of a node's clients to the port of the cluster bus."""


class EngineError(Exception):
    """An engine did not start."""


class RedisEngine:
    """A `redis-server` on 127.0.0.1 with the command line options `options`."""

    def __init__(self, folder: Path, options: Sequence[str], scheme: str = "redis") -> None:
        self.folder = folder
        self.options = options
        self.port = free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.process = self._start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def execute(self, *command: str | bytes | int, **options: Any) -> Any:
        """Send one command over a new connection and return the reply."""
        with Redis(
            port=self.port, decode_responses=True, protocol=2, retry=Retry(NoBackoff(), 0), **options
        ) as client:
            return client.execute_command(*command)

    def info(self, name: str) -> int:
        """An integer of the command INFO."""
        return int(self.execute("INFO", "everything")[name])

    def kill(self) -> None:
        """End the process with SIGKILL."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """Stop the process with SIGSTOP: connections stay open, and no command is answered."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        """Continue after `pause`."""
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Start again after `kill`, on the same port and with the files on disk."""
        self.process = self._start()

    def _start(self) -> "subprocess.Popen[bytes]":
        program = shutil.which("redis-server")
        if program is None:
            raise EngineError("redis-server is not installed: apt-get install redis-server")
        log = self.folder / "log"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        with log.open("ab") as output:
            process = subprocess.Popen([*command, *self.options], stdout=output, stderr=output)
        try:
            wait_until(lambda: process.poll() is not None or _listens(self.port), ENGINE_TIMEOUT_SECONDS)
            if process.poll() is not None:
                raise EngineError(f"redis-server ended: {log.read_text()[-2000:]}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process


class RedisCluster:
    """Masters of a Redis Cluster, each with an equal share of the slots."""

    def __init__(self, nodes: Sequence[RedisEngine]) -> None:
        self.nodes = nodes
        self.url = f"redis+cluster://{','.join(node.address for node in nodes)}"

    def owner(self, slot: int) -> RedisEngine:
        """The node that serves a slot."""
        return self.nodes[
            next(index for index in range(len(self.nodes)) if slot in _share(index, len(self.nodes)))
        ]

    def join(self) -> None:
        """Form a cluster of the nodes."""
        for index, node in enumerate(self.nodes):
            node.execute("CLUSTER SET-CONFIG-EPOCH", index + 1)
            node.execute("CLUSTER ADDSLOTS", *_share(index, len(self.nodes)))
        for node in self.nodes[1:]:
            node.execute("CLUSTER MEET", "127.0.0.1", self.nodes[0].port)
        wait_until(lambda: all(self._complete(node) for node in self.nodes), ENGINE_TIMEOUT_SECONDS)

    def _complete(self, node: RedisEngine) -> bool:
        nodes, slots = node.execute("CLUSTER INFO"), node.execute("CLUSTER SLOTS")
        joined = int(nodes["cluster_known_nodes"]) == len(self.nodes)
        return joined and nodes["cluster_state"] == "ok" and len(slots) == len(self.nodes)


DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""Options that sync every write to disk before the reply. With `everysec`, a killed engine can lose
acknowledged writes. See docs/stores.md.
"""


@contextmanager
def redis_server(*options: str) -> Iterator[RedisEngine]:
    """An engine until the block ends; it keeps nothing on disk unless `options` say so."""
    with tempfile.TemporaryDirectory(prefix="paymock-redis-") as folder:
        engine = _start_on_free_port(Path(folder), ["--save", "", *options])
        try:
            yield engine
        finally:
            engine.kill()


@contextmanager
def redis_cluster(nodes: int = 3, *options: str) -> Iterator[RedisCluster]:
    """A cluster of so many masters, each of which keeps serving when others have failed."""
    with ExitStack() as stack:
        cluster = RedisCluster([stack.enter_context(cluster_node(*options)) for _ in range(nodes)])
        cluster.join()
        yield cluster


@contextmanager
def cluster_node(*options: str) -> Iterator[RedisEngine]:
    """An engine that can join a cluster."""
    clustered = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
    with redis_server(*clustered, "--cluster-node-timeout", "2000", *options) as engine:
        yield engine


def free_port() -> int:
    """A free port whose cluster bus port is free as well."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            with suppress(OSError, OverflowError):
                other.bind(("127.0.0.1", port + _BUS_OFFSET))
                return port


def _start_on_free_port(folder: Path, options: Sequence[str]) -> RedisEngine:
    for _ in range(5):
        with suppress(EngineError):
            return RedisEngine(folder, options)  # another process can take a free port first
    return RedisEngine(folder, options)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(7) in (b"+PONG\r\n", b"-NOAUTH")
    except OSError:
        return False


def _share(index: int, count: int) -> range:
    return range(index * SLOTS // count, (index + 1) * SLOTS // count)
