"""The garbage collector of servers, and signals that come at the worst moments."""

import asyncio
import gc
import signal
import subprocess
import sys
import weakref
from typing import Any, cast

import pytest

from harness.server_process import environment
from paymock.rules.errors import PaymockError
from paymock.server import server
from paymock.server.process import GC_THRESHOLDS, HANGUP, STOP_SIGNALS
from paymock.stores.memory import MemoryStore
from paymock.testing import serve
from tests.support.use_cases import UseCases


@pytest.mark.process
def test_a_server_collects_rarely_and_excludes_the_objects_of_the_start() -> None:
    script = (
        "import gc, sys, paymock.cli.main, paymock.server.server\n"
        "def run(self):\n"
        "    print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 20_000)\n"
        "    sys.exit()\n"
        "paymock.server.server.Server.run = run\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    output = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert output == f"True {GC_THRESHOLDS} True\n"


def test_a_server_in_a_thread_does_not_change_the_collector() -> None:
    before = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    with serve() as server, server.sandbox() as sandbox:
        sandbox.create()
        assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == before


def test_a_refused_creation_leaves_no_cycle() -> None:
    async def refuse() -> weakref.ref[PaymockError]:
        app = UseCases(MemoryStore())
        try:
            await app.create(receive__amount="none")
        except PaymockError as refusal:
            return weakref.ref(refusal)
        raise AssertionError("it was not refused")

    gc.disable()
    try:
        assert asyncio.run(refuse())() is None
    finally:
        gc.enable()


def output_of(script: str) -> str:
    """What a script prints that ends with status 0."""
    command = [sys.executable, "-c", script]
    return subprocess.check_output(
        command, env=environment(), stderr=subprocess.STDOUT, text=True, start_new_session=True
    )


SIGNAL_IN_A_CALLBACK = """
import signal, sys
from paymock.cli import main
from paymock.server import run

class Finalized:
    def __del__(self):  # Python ignores exceptions in it
        signal.raise_signal(signal.SIGTERM)

def serve(*_):
    Finalized()
    print("the process went on")

run.serve = serve
sys.argv = ["paymock", "serve"]
main.main()
"""


@pytest.mark.process
def test_a_signal_during_a_callback_of_the_interpreter_is_not_lost() -> None:
    assert output_of(SIGNAL_IN_A_CALLBACK) == ""


SIGNAL_AT_EACH_LINE = """
import asyncio, signal, sys
from paymock.server import process

calls = []
process.exit_after_timeout = lambda: calls.append("canceled")
signal.signal(signal.SIGTERM, lambda *_: calls.append("previous handler"))

async def main():
    return "result"

def run_with_signal_at(line):
    count = 0

    def trace(frame, event, argument):
        nonlocal count
        if frame.f_code.co_filename not in (process.__file__, signal.__file__):
            return None
        count += event == "line"
        if count == line and event == "line":
            sys.settrace(None)
            signal.raise_signal(signal.SIGTERM)
        return trace

    sys.settrace(trace)
    try:
        return process.run_until_signal(main)
    except SystemExit as exit:
        return exit.code
    finally:
        sys.settrace(None)

outcomes = set()
for line in range(1, 100):
    calls.clear()
    outcomes.add((run_with_signal_at(line), *calls))
print(sorted(outcomes, key=str))
"""


@pytest.mark.process
def test_a_signal_is_not_lost_at_whatever_line_it_comes() -> None:
    """It cancels the coroutine, or is handled by the previous handler."""
    outcomes = "[('result', 'previous handler'), ('result',), (0, 'canceled')]"
    assert output_of(SIGNAL_AT_EACH_LINE) == f"{outcomes}\n"


HANGUPS = """
import atexit, signal, sys
from paymock.cli import main
from paymock.server import run, server
from paymock.web import app

def hang_up(*_):
    signal.raise_signal(signal.SIGHUP)
    return "hangup"

load_catalog = app.load_catalog
app.load_catalog = lambda path: hang_up() and load_catalog(path)
run.reload_keys = lambda *_: print("read the keys again")
server.Server.run = lambda self: self._on_ready() or hang_up()
atexit.register(hang_up)
sys.argv = ["paymock", "serve", "--port", "0"]
main.main()
"""


@pytest.mark.process
def test_a_hangup_does_not_end_a_server_that_starts_or_ends() -> None:
    output = output_of(HANGUPS)
    assert output.startswith("read the keys again\npaymock ")
    assert output.endswith("\nstopped (hangup)\n")


@pytest.mark.skipif(not HANGUP, reason="needs SIGHUP")
def test_a_hangup_before_there_is_an_event_loop_is_not_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    def interrupt(**_: object) -> None:
        signal.raise_signal(signal.SIGHUP)
        raise InterruptedError

    monkeypatch.setattr("asyncio.Runner", interrupt)
    monkeypatch.setattr(server, "stop_signals", lambda: STOP_SIGNALS)  # wherever the tests run
    hangups: list[bool] = []
    starting = server.Server([cast("Any", None)], [], lambda: None, on_hangup=lambda: hangups.append(True))
    with pytest.raises(InterruptedError):
        starting.run()
    assert hangups == [True]
