"""The command `paymock serve` in a process of its own, as a user starts it."""

import json
import os
import subprocess
import sys
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager
from pathlib import Path

PAYMOCK = [sys.executable, "-m", "paymock"]


def environment(**variables: str) -> dict[str, str]:
    """This process's environment without paymock's own variables, and with `variables`."""
    inherited = {name: value for name, value in os.environ.items() if not name.startswith("PAYMOCK_")}
    return {**inherited, **variables}


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """The outcome of a command that ends by itself."""
    return subprocess.run(
        [*PAYMOCK, *arguments],
        env=environment(**variables),
        capture_output=True,
        text=True,
        timeout=20,
        check=False,
    )


class Served:
    """A running `paymock serve`: what its ready file said, its process, and, once it was stopped, what it has
    complained of on standard error.
    """

    def __init__(self, process: subprocess.Popen[str], ready: dict[str, object]) -> None:
        self.process = process
        self.ready = ready
        self.url = str(ready["url"])
        self.port = int(str(ready["port"]))
        self.complaints: str | None = None

    def stop(self, signal: int) -> tuple[int, str]:
        """Sends a signal; the exit status and all that was written to standard output."""
        self.process.send_signal(signal)
        output, self.complaints = self.process.communicate(timeout=10)
        return self.process.returncode, output


def serving(tmp_path: Path, *arguments: str, **variables: str) -> AbstractContextManager[Served]:
    """`paymock serve` on a free port, until the block ends."""
    return _started(tmp_path, (), arguments, environment(**variables))


def serving_by(tmp_path: Path, script: str, *arguments: str) -> AbstractContextManager[Served]:
    """The same, begun by a shell script that ends with `exec "$@"`."""
    return _started(tmp_path, ("/bin/sh", "-c", script, "sh"), arguments, environment())


@contextmanager
def _started(
    tmp_path: Path, before: Sequence[str], arguments: Sequence[str], variables: Mapping[str, str]
) -> Iterator[Served]:
    ready_file = tmp_path / "ready.json"
    command = [*before, *PAYMOCK, "serve", "--port", "0", "--ready-file", str(ready_file), *arguments]
    with subprocess.Popen(
        command, env=variables, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    ) as process:
        try:
            yield Served(process, _wait_for(ready_file, process))
        finally:
            process.kill()


def _wait_for(ready_file: Path, process: subprocess.Popen[str]) -> dict[str, object]:
    deadline = time.monotonic() + 30
    while time.monotonic() < deadline and process.poll() is None:
        if ready_file.exists():
            ready: dict[str, object] = json.loads(ready_file.read_text())
            return ready
        time.sleep(0.01)  # another process writes the file: there is nothing to wait on but time
    process.kill()
    raise AssertionError(f"the server did not become ready: {process.communicate()}")
