import shlex
import signal
import subprocess
from contextlib import nullcontext
from pathlib import Path
from typing import Any

import pytest

from harness.polling import wait_until
from harness.process_info import is_running
from paymock.verify import process
from paymock.verify.process import ExternalService, NotStarted, Service
from tests.verify.endpoint import Endpoint

pytestmark = pytest.mark.process

LONG = 30.0
"""Seconds that no test takes."""

WRITE_PIDS = "echo $$ $! > pids.new; mv pids.new pids"
"""Of the application and its child."""


def service(command: str, ready: str | None = None, timeout: float = LONG, **more: Any) -> Service:
    return Service(command, {"PAYMOCK_URL": "http://127.0.0.1:8402"}, ready, timeout, **more)


def lines_of(path: Path, count: int) -> list[str]:
    """The lines of a file, once there are so many."""
    wait_until(lambda: path.exists() and path.read_text().count("\n") >= count)
    return path.read_text().splitlines()


def test_it_gets_the_sandbox_and_no_input_and_keeps_its_folder_from_start_to_start(tmp_path: Path) -> None:
    seen = tmp_path / "seen"
    command = f'cat; ls "$PAYMOCK_STATE_DIR"; touch "$PAYMOCK_STATE_DIR/kept"; echo "$PAYMOCK_URL" >> {seen}'
    with service(f"{command}; exec sleep 60") as application:
        lines_of(seen, 1)
        assert (application.exit_status(), application.end_reason()) == (None, "")
        before = application.mark()
        application.kill()
        application.start()
        assert lines_of(seen, 2) == ["http://127.0.0.1:8402"] * 2
        assert application.last_output(12, since=before) == [application.end_reason()] == ["kept"]


def test_one_that_ends_is_told_once_and_can_be_started_again(tmp_path: Path) -> None:
    runs = tmp_path / "runs"
    command = (
        f"echo run >> {runs}; [ $(wc -l < {runs}) = 1 ] && echo no database >&2 && exit 3; exec sleep 60"
    )
    with service(command) as application:
        wait_until(lambda: application.exit_status() == 3)
        assert (application.exit_status(), application.end_reason()) == (None, "no database")
        application.start()
        lines_of(runs, 2)
        assert application.exit_status() is None


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
def test_after_a_kill_nothing_of_it_runs_in_whatever_session(tmp_path: Path, number: signal.Signals) -> None:
    pids = tmp_path / "pids"
    child = f"setsid sh -c 'echo $$ >> {pids}; exec sleep 1000'"
    with service(f"{child} & echo $$ >> {pids}; wait") as application:
        lines_of(pids, 2)
        application.kill(number)
        assert not any(is_running(int(pid)) for pid in lines_of(pids, 2))


def test_replicas_have_a_port_each_and_one_is_killed_alone(tmp_path: Path) -> None:
    command = f"echo $$ {{port}} >> {tmp_path}/pids; exec sleep 60"
    with service(command, replicas=2) as application:
        lines = [line.split() for line in lines_of(tmp_path / "pids", 2)]
        processes = {int(port): int(pid) for pid, port in lines}
        assert sorted(processes) == sorted(application.ports)
        application.kill(replica=0)
        assert [is_running(processes[port]) for port in application.ports] == [False, True]
        application.start()
        assert lines_of(tmp_path / "pids", 3)[2].endswith(f" {application.ports[0]}")


def test_what_others_start_again_can_fail_to() -> None:
    def crash() -> None:
        raise RuntimeError("no image")

    with pytest.raises(NotStarted, match=r"^the application was not started again: no image$"):
        ExternalService(crash).kill()


@pytest.mark.parametrize(
    ("command", "message"),
    [
        ("exit 7", "the application ended with exit status 7 before it was ready."),
        ("echo a; printf 'b\\377' >&2; exit 1", "1 before it was ready.\nIts last output:\na\nb\ufffd"),
        ("seq 5000; exit 1", "Its last output:\n" + "\n".join(map(str, range(4981, 5001)))),
    ],
)
def test_an_early_end_is_told_with_output(silent_url: str, command: str, message: str) -> None:
    with pytest.raises(NotStarted) as failed, service(command, silent_url):
        pass
    assert str(failed.value).endswith(message)


def test_another_one_that_answers_is_told(shop: Endpoint, tmp_path: Path) -> None:
    url, started = f"{shop.url}/health", tmp_path / "started"
    message = rf"{url} answers already, .*: is one running\?"
    with pytest.raises(NotStarted, match=message), service(f"touch {started}", url):
        pass
    assert not started.exists()


@pytest.mark.parametrize(
    ("url", "message"),
    [
        ("{shop}/starting", None),
        ("{shop}/404", "answers {url} with 404, and not with 2xx."),
        ("{shop}/503", "has not answered {url} with 2xx within 0.3 s."),
        ("http://127.0.0.1:abc/", "has not answered {url} with 2xx within 0.3 s."),
        ("127.0.0.1:8000", "has not answered {url} with 2xx within 0.3 s."),
    ],
)
def test_who_answers_with_2xx_has_started(
    shop: Endpoint, monkeypatch: pytest.MonkeyPatch, url: str, message: str | None
) -> None:
    monkeypatch.setattr(process, "_REFUSED_SECONDS", 0.1)
    monkeypatch.setattr(process, "_STOP_SECONDS", 0.3)  # the URL goes on answering: it is another's
    url = url.format(shop=shop.url)
    if message is None:
        with service("exec sleep 60", url):
            assert len(shop.requests) == 3
        return
    with pytest.raises(NotStarted) as failed, service("exec sleep 60", url, 0.3):
        pass
    assert str(failed.value) == f"the application {message.format(url=url)}"


@pytest.mark.parametrize(
    ("command", "error"),
    [
        *((f"sleep 60 & {WRITE_PIDS}; wait", error) for error in (None, RuntimeError, KeyboardInterrupt)),
        (f"trap '' TERM; (while :; do sleep 60; done) & {WRITE_PIDS}; wait", None),
        (f"sleep 60 & {WRITE_PIDS}", None),
    ],
)
def test_it_ends_the_application_and_its_children_in_every_case(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, command: str, error: type[BaseException] | None
) -> None:
    monkeypatch.setattr(process, "_STOP_SECONDS", 0.1)
    pids = tmp_path / "pids"
    start = f"cd {shlex.quote(str(tmp_path))}; {command}"
    with pytest.raises(error) if error else nullcontext(), service(start):
        wait_until(pids.exists)
        if error:
            raise error
    processes = [int(pid) for pid in pids.read_text().split()]
    assert len(processes) == 2
    wait_until(lambda: not any(map(is_running, processes)))


def test_an_interrupt_ends_what_was_being_started(monkeypatch: pytest.MonkeyPatch) -> None:
    started: list[subprocess.Popen[bytes]] = []

    def interrupted(*arguments: Any, **settings: Any) -> subprocess.Popen[bytes]:
        started.append(start(*arguments, **settings))
        signal.raise_signal(signal.SIGINT)
        return started[0]

    start = subprocess.Popen
    monkeypatch.setattr(subprocess, "Popen", interrupted)
    with pytest.raises(KeyboardInterrupt), service("exec sleep 60"):
        pytest.fail("the interrupt was lost")
    assert started[0].returncode == -signal.SIGTERM
    assert signal.getsignal(signal.SIGINT) is signal.default_int_handler
