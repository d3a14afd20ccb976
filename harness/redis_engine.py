"""Redis engines and Sentinels on free ports of 127.0.0.1, each in a temporary folder."""

import shutil
import signal
import socket
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from typing import Any, TypeVar

from redis import Redis
from redis.backoff import NoBackoff
from redis.exceptions import AuthenticationError, RedisError
from redis.retry import Retry

from harness.polling import wait_until

ENGINE_TIMEOUT_SECONDS = 60
"""After this time an engine that does not answer counts as failed."""


class EngineError(Exception):
    """An engine did not start."""


E = TypeVar("E", bound="RedisEngine")


class RedisEngine:
    """A `redis-server` on 127.0.0.1 with the command line options `options`. `login` are the options of
    redis-py for the connections of `execute`; with `ssl` it serves TLS only.
    """

    def __init__(self, folder: Path, options: Sequence[str], **login: Any) -> None:
        self.folder = folder
        self.options = options
        self.login = login
        self.port = free_port()
        self.url = f"redis://127.0.0.1:{self.port}"
        self.process = self._start()

    @property
    def address(self) -> str:
        """Host and port."""
        return f"127.0.0.1:{self.port}"

    def execute(self, *command: str | bytes | int, **options: Any) -> Any:
        """Send one command over a new connection and return the reply."""
        defaults = {"decode_responses": True, "protocol": 2, "retry": Retry(NoBackoff(), 0)}
        with Redis("127.0.0.1", self.port, **{**defaults, **self.login, **options}) as client:
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
        ports = ("--port", "0", "--tls-port") if self.login.get("ssl") else ("--port",)
        command = [program, *self.options, *ports, str(self.port), "--bind", "127.0.0.1"]
        command += ["--dir", str(self.folder)]
        with log.open("ab") as output:
            process = subprocess.Popen(command, stdout=output, stderr=output)
        try:
            wait_until(lambda: process.poll() is not None or self._listens(), ENGINE_TIMEOUT_SECONDS)
            if process.poll() is not None:
                raise EngineError(f"redis-server ended: {log.read_text()[-2000:]}")
        except BaseException:
            process.kill()
            process.wait()
            raise
        return process

    def _listens(self) -> bool:
        try:
            self.execute("PING")
        except AuthenticationError:
            return True
        except (RedisError, OSError):
            return False
        return True


class RedisSentinel(RedisEngine):
    """A Sentinel of `nodes`, the first of which is the master; `quorum` of them decide on a failover."""

    def __init__(
        self,
        folder: Path,
        options: Sequence[str],
        nodes: Sequence[RedisEngine],
        quorum: int = 1,
        **login: Any,
    ) -> None:
        self.nodes = nodes
        settings = [
            f"monitor paymock 127.0.0.1 {nodes[0].port} {quorum}",
            "down-after-milliseconds paymock 1000",  # a busy machine is slow to answer
            "failover-timeout paymock 2000",
        ]
        if password := nodes[0].login.get("password"):
            settings.append(f"auth-pass paymock {password}")
        if username := nodes[0].login.get("username"):
            settings.append(f"auth-user paymock {username}")
        configuration = folder / "sentinel.conf"
        configuration.write_text("".join(f"sentinel {setting}\n" for setting in settings))
        super().__init__(folder, (str(configuration), "--sentinel", *options), **login)
        self.url = f"redis+sentinel://127.0.0.1:1,{self.address}/paymock"  # the first is always down

    def master(self) -> RedisEngine:
        """The engine that the Sentinel names."""
        _, port = self.execute("SENTINEL", "GET-MASTER-ADDR-BY-NAME", "paymock")
        return next(node for node in self.nodes if node.port == int(port))

    def set_patience(self, seconds: float) -> None:
        """Take an engine for down after so long; on a busy machine, one that is up can be silent for 1 s."""
        self.execute("SENTINEL", "SET", "paymock", "down-after-milliseconds", round(seconds * 1000))

    def hold_writes(self) -> None:
        """Let no write be executed any more, and wait until the replica has all that were."""
        master = self.master()
        [replica] = [node for node in self.nodes if node is not master]
        master.execute("CLIENT", "PAUSE", ENGINE_TIMEOUT_SECONDS * 1000, "WRITE")
        sent = master.info("master_repl_offset")
        wait_until(lambda: replica.info("slave_repl_offset") >= sent, ENGINE_TIMEOUT_SECONDS)

    def replicates(self) -> bool:
        """Whether there is a replica that the Sentinel can promote."""
        try:
            master = self.master()
            [replica] = [node for node in self.nodes if node is not master]
            role, *state = replica.execute("ROLE")
            known = self.execute("SENTINEL", "REPLICAS", "paymock")
        except RedisError:  # a Sentinel ends all connections to an engine whose role it changes
            return False
        fields = [dict(zip(row[::2], row[1::2], strict=True)) for row in known]
        return (
            role == "slave"
            and state[1:3] == [master.port, "connected"]
            and any(one["flags"] == "slave" and one["master-link-status"] == "ok" for one in fields)
        )


DURABLE = ("--appendonly", "yes", "--appendfsync", "always")
"""Options that sync every write to disk before the reply. With `everysec`, a killed engine can lose
acknowledged writes. See docs/stores.md.
"""


@contextmanager
def redis_server(*options: str, **login: Any) -> Iterator[RedisEngine]:
    """An engine until the block ends; it keeps nothing on disk unless `options` say so."""
    with _temporary_folder() as folder:
        engine = _start_on_free_port(lambda: RedisEngine(Path(folder), ("--save", "", *options), **login))
        try:
            yield engine
        finally:
            engine.kill()


@contextmanager
def redis_sentinel(
    *options: str,
    login: Mapping[str, Any] = {},
    sentinel_options: Sequence[str] = (),
    sentinel_login: Mapping[str, Any] = {},
) -> Iterator[RedisSentinel]:
    """A Sentinel of a master and a replica, which have these options and this `login`."""
    options = (*options, "--repl-diskless-sync-delay", "0")
    with (
        redis_server(*options, **login) as master,
        redis_server(*options, "--replicaof", f"127.0.0.1 {master.port}", **login) as replica,
        _temporary_folder() as folder,
    ):
        nodes = (master, replica)
        sentinel = _start_on_free_port(
            lambda: RedisSentinel(Path(folder), sentinel_options, nodes, **sentinel_login)
        )
        try:
            wait_until(sentinel.replicates, ENGINE_TIMEOUT_SECONDS)
            yield sentinel
        finally:
            sentinel.kill()


def _temporary_folder() -> "tempfile.TemporaryDirectory[str]":
    """A child of a killed engine may write to it a moment longer."""
    return tempfile.TemporaryDirectory(prefix="paymock-redis-", ignore_cleanup_errors=True)


def free_port() -> int:
    """A free port."""
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


def _start_on_free_port(start: Callable[[], E]) -> E:
    for _ in range(5):
        with suppress(EngineError):
            return start()  # another process can take a free port first
    return start()
