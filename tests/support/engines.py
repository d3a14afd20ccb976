"""Real Redis engines that the tests start: on free ports, in folders of their own, ended by pid."""

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

from tests.support.waiting import wait_until

ANSWER_SECONDS = 20
"""How long an engine may take to answer, on a machine that runs many tests at once."""

SLOTS = 16384

_BUS = 10_000
"""How far the port that the nodes of a cluster talk on lies behind the one of their clients."""


class EngineError(Exception):
    """An engine did not start."""


class RedisEngine:
    """A `redis-server` on 127.0.0.1, with `options` of its command line."""

    def __init__(self, folder: Path, options: Sequence[str], scheme: str = "redis") -> None:
        self.folder = folder
        self.options = options
        self.port = free_port()
        self.url = f"{scheme}://127.0.0.1:{self.port}"
        self.process = self._started()

    @property
    def address(self) -> str:
        return f"127.0.0.1:{self.port}"

    def ask(self, *command: str | bytes | int, **options: Any) -> Any:
        """The reply to one command, over a connection of its own."""
        with Redis(
            port=self.port, decode_responses=True, protocol=2, retry=Retry(NoBackoff(), 0), **options
        ) as client:
            return client.execute_command(*command)

    def info(self, name: str) -> int:
        """A figure that the engine counts."""
        return int(self.ask("INFO", "everything")[name])

    def kill(self) -> None:
        """Ends the engine as a crash does."""
        self.process.kill()
        self.process.wait()

    def pause(self) -> None:
        """The engine's connections stay open, and nothing answers until `resume`."""
        self.process.send_signal(signal.SIGSTOP)

    def resume(self) -> None:
        self.process.send_signal(signal.SIGCONT)

    def restart(self) -> None:
        """Starts the engine again after `kill`, where it was and with what it has kept on disk."""
        self.process = self._started()

    def _started(self) -> "subprocess.Popen[bytes]":
        program = shutil.which("redis-server")
        if program is None:
            raise EngineError("these tests need redis-server: apt-get install redis-server")
        log = self.folder / "log"
        command = [program, "--port", str(self.port), "--bind", "127.0.0.1", "--dir", str(self.folder)]
        with log.open("ab") as output:
            process = subprocess.Popen([*command, *self.options], stdout=output, stderr=output)
        try:
            wait_until(lambda: process.poll() is not None or _listens(self.port), ANSWER_SECONDS)
            if process.poll() is not None:
                raise EngineError(f"redis-server ended: {log.read_text()[-2000:]}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process


class RedisCluster:
    """Nodes of a Redis Cluster, each with an equal share of the slots."""

    def __init__(self, nodes: Sequence[RedisEngine]) -> None:
        self.nodes = nodes
        self.url = f"redis+cluster://{','.join(node.address for node in nodes)}"

    def owner(self, slot: int) -> RedisEngine:
        """The node that has a slot."""
        return self.nodes[next(at for at in range(len(self.nodes)) if slot in _share(at, len(self.nodes)))]

    def join(self) -> None:
        """Makes a cluster of the nodes."""
        for at, node in enumerate(self.nodes):
            node.ask("CLUSTER SET-CONFIG-EPOCH", at + 1)
            node.ask("CLUSTER ADDSLOTS", *_share(at, len(self.nodes)))
        for node in self.nodes[1:]:
            node.ask("CLUSTER MEET", "127.0.0.1", self.nodes[0].port)
        wait_until(lambda: all(self._complete(node) for node in self.nodes), ANSWER_SECONDS)

    def _complete(self, node: RedisEngine) -> bool:
        nodes, slots = node.ask("CLUSTER INFO"), node.ask("CLUSTER SLOTS")
        known = int(nodes["cluster_known_nodes"]) == len(self.nodes)
        return known and nodes["cluster_state"] == "ok" and len(slots) == len(self.nodes)


LASTING = ("--appendonly", "yes", "--appendfsync", "always")
"""An engine that answers when what it was given is on disk. With `everysec`, and while the disk is busy, it
would answer before it has written it, and lose that with the process. See docs/stores.md.
"""


@contextmanager
def redis_server(*options: str) -> Iterator[RedisEngine]:
    """An engine that keeps nothing on disk, unless the options say otherwise."""
    with tempfile.TemporaryDirectory(prefix="paymock-redis-") as folder:
        engine = _on_a_free_port(Path(folder), ["--save", "", *options])
        try:
            yield engine
        finally:
            engine.kill()


@contextmanager
def redis_cluster(nodes: int = 3, *options: str) -> Iterator[RedisCluster]:
    """A cluster of that many masters, of which each serves its sandboxes when others are gone."""
    with ExitStack() as stack:
        cluster = RedisCluster([stack.enter_context(cluster_node(*options)) for _ in range(nodes)])
        cluster.join()
        yield cluster


@contextmanager
def cluster_node(*options: str) -> Iterator[RedisEngine]:
    """An engine that can become a node of a cluster."""
    clustered = ("--cluster-enabled", "yes", "--cluster-require-full-coverage", "no")
    with redis_server(*clustered, "--cluster-node-timeout", "2000", *options) as engine:
        yield engine


def free_port() -> int:
    """A port that nobody listens on now, and whose companion is free, too."""
    while True:
        with socket.socket() as one, socket.socket() as other:
            one.bind(("127.0.0.1", 0))
            port: int = one.getsockname()[1]
            with suppress(OSError, OverflowError):
                other.bind(("127.0.0.1", port + _BUS))
                return port


def _on_a_free_port(folder: Path, options: Sequence[str]) -> RedisEngine:
    for _ in range(5):
        with suppress(EngineError):
            return RedisEngine(folder, options)  # a port that was free may be taken by now
    return RedisEngine(folder, options)


def _listens(port: int) -> bool:
    try:
        with socket.create_connection(("127.0.0.1", port), 1) as connection:
            connection.sendall(b"PING\r\n")
            return connection.recv(7) in (b"+PONG\r\n", b"-NOAUTH")
    except OSError:
        return False


def _share(at: int, of: int) -> range:
    return range(at * SLOTS // of, (at + 1) * SLOTS // of)
