import re
import subprocess
import sys

import pytest

from tests.support.workers import NEEDS_PROCESSES

pytestmark = [NEEDS_PROCESSES, pytest.mark.process]

SCRIPT = """
import errno, os, signal, sys, time
from paymock.server.accept import ConnectionCounts
from paymock.server.errors import StartError
from paymock.server.supervisor import Supervisor

starts = []
fork = os.fork

def work(slot):
    {work}

def on_ready():
    print("ready", flush=True)
    {on_ready}

class Log:
    def event(self, name, text, **fields):
        print(name, text, sorted(fields), flush=True)
        {on_event}

def counting_fork():
    starts.append(time.monotonic())
    {on_fork}
    return fork()

os.fork = counting_fork
try:
    on_hangup = lambda: os.write(1, b"hangup\\n")
    Supervisor(2, work, [], ConnectionCounts(2), on_ready, Log(), on_hangup).run()
except StartError as error:
    print("StartError:", error)
print(len(starts), "starts")
try:
    os.waitpid(-1, 0)
except ChildProcessError:
    print("none left")
"""


def supervise(work: str, on_event: str = "pass", on_fork: str = "pass", on_ready: str = "pass") -> list[str]:
    script = SCRIPT.format(work=work, on_event=on_event, on_fork=on_fork, on_ready=on_ready)
    result = subprocess.run(
        [sys.executable, "-W", "error", "-c", script], capture_output=True, text=True, timeout=60, check=True
    )
    return result.stdout.splitlines()


def test_the_reason_why_a_worker_cannot_start_is_reported() -> None:
    assert supervise("raise OSError(errno.EMFILE, 'Too many open files')") == [
        (
            "StartError: a worker ended before all of them were ready "
            "(status 1, reason [Errno 24] Too many open files)"
        ),
        "2 starts",
        "none left",
    ]


def test_a_failed_fork_at_first_fails_the_start() -> None:
    on_fork = "if len(starts) == 2: raise OSError(errno.EAGAIN, 'Try again')"
    assert supervise("slot.send_ready(); time.sleep(60)", on_fork=on_fork) == [
        "StartError: cannot start the workers: Try again",
        "2 starts",
        "none left",
    ]


def test_a_failed_fork_later_is_retried() -> None:
    lines = supervise(
        "slot.send_ready(); (time.sleep(60) if slot.number else time.sleep(1))",
        on_event="if name == 'worker_replaced': os.kill(os.getpid(), signal.SIGTERM)",
        on_fork="if len(starts) == 3: raise OSError(errno.EAGAIN, 'Try again')",
    )
    assert lines[:2] == ["ready", "worker_missing cannot start a worker: Try again ['reason']"]
    assert re.fullmatch(
        r"worker_replaced worker \d+ ended \(status 0\); started \d+ \['ended', 'started', 'status'\]",
        lines[2],
    )
    assert lines[3:] == ["4 starts", "none left"]


def test_a_worker_that_starts_handles_a_hangup() -> None:
    lines = supervise(
        "signal.raise_signal(signal.SIGHUP); slot.send_ready(); time.sleep(60)",
        on_ready="signal.raise_signal(signal.SIGTERM)",
    )
    assert lines == ["hangup", "hangup", "ready", "2 starts", "none left"]
