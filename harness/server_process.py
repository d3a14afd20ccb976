"""The commands `paymock` and `paymock serve` in processes of their own, as a user starts them."""

import json
import os
import socket
import subprocess
import sys
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, ExitStack, contextmanager
from pathlib import Path

from harness.polling import wait_until
from harness.process_info import ProcessTree

PAYMOCK = [sys.executable, "-m", "paymock"]
if "TESTED_EXECUTABLE" in os.environ:  # by tests/project/test_binary.py
    PAYMOCK = [os.environ["TESTED_EXECUTABLE"]]

TIMEOUT_SECONDS = 60
"""After this time a start, a stop or a command counts as hanging."""


START_ATTEMPTS = 20
STORE_SILENT = "it does not answer"
"""A start fails when the store is silent for a second, which an engine on a busy machine can be. Like an
orchestrator, `server_process` then starts the server again.
"""


def environment(**variables: str) -> dict[str, str]:
    """The environment of this process without variables of paymock, updated with `variables`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAYMOCK_")}
    return {**inherited, **variables}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command that ends by itself. Raises subprocess.TimeoutExpired."""
    return subprocess.run(
        [*PAYMOCK, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=TIMEOUT_SECONDS,
        check=False,
    )


class ServerProcess:
    """A running `paymock serve`."""

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, object]) -> None:
        self.process = process
        self.ready = ready
        """The content of the ready file."""
        self.url = str(ready["url"])
        self.port = int(str(ready["port"]))
        self.tree = ProcessTree(process.pid)
        self.stderr: str | None = None
        """Standard error, once the server was stopped."""

    def stop(self, signal: int) -> tuple[int, str]:
        """Send a signal; return the exit status and standard output."""
        self.process.send_signal(signal)
        output, self.stderr = self.process.communicate(timeout=TIMEOUT_SECONDS)
        return self.process.returncode, output


def server_process(folder: Path, *arguments: str, **variables: str) -> AbstractContextManager[ServerProcess]:
    """`paymock serve` on a free port until the block ends, with its ready file in `folder`."""
    return _start(folder, (), arguments, environment(**variables))


@contextmanager
def servers_on_one_port(folder: Path, count: int, *arguments: str) -> Iterator[list[ServerProcess]]:
    """So many `paymock serve --reuse-port` until the block ends, with folders of their own in `folder`."""
    with ExitStack() as stack:
        reserved = stack.enter_context(socket.socket())  # it does not listen, so it gets no connection
        reserved.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        reserved.bind(("127.0.0.1", 0))
        shared = ("--reuse-port", "--port", str(reserved.getsockname()[1]))
        servers = []
        for number in range(count):
            own = folder / f"server-{number}"
            own.mkdir()
            servers.append(stack.enter_context(server_process(own, *shared, *arguments)))
        yield servers


def server_process_by_script(
    folder: Path, script: str, *arguments: str
) -> AbstractContextManager[ServerProcess]:
    """The same, started by a shell script that ends with `exec "$@"`."""
    return _start(folder, ("/bin/sh", "-c", script, "sh"), arguments, environment())


@contextmanager
def _start(
    folder: Path, prefix: Sequence[str], arguments: Sequence[str], variables: Mapping[str, str]
) -> Iterator[ServerProcess]:
    ready_file = folder / "ready.json"
    command = [*prefix, *PAYMOCK, "serve", "--port", "0", "--ready-file", str(ready_file), *arguments]
    attempts = 0
    while True:
        attempts += 1
        with subprocess.Popen(
            command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
        ) as process:
            try:
                wait_until(lambda: ready_file.exists() or process.poll() is not None, TIMEOUT_SECONDS)
                if process.poll() is None:
                    yield ServerProcess(process, json.loads(ready_file.read_text()))
                    return
                output, errors = process.communicate()
            finally:
                process.kill()
        if attempts == START_ATTEMPTS or STORE_SILENT not in errors:
            raise AssertionError(f"the server did not start: {output}{errors}")
