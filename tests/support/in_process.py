"""The command line in this process, for commands that end by themselves."""

import io
import os
import signal
import subprocess
import sys
import warnings
from contextlib import ExitStack
from unittest import mock

from harness.server_process import environment
from paymock.cli.main import main
from paymock.server import process


def run(*arguments: str, **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command like `harness.server_process.run`. `serve` can be refused here, but not serve."""
    return _run(arguments, variables, _Stream(variables), _Stream(variables))


def run_on_terminal(*arguments: str, typed: str = "", **variables: str) -> subprocess.CompletedProcess[str]:
    """Run a command whose output, and its messages with it, go to a terminal of 100 columns and 30 lines, and
    at which something is `typed`.
    """
    terminal = {"TERM": "xterm-256color", "NO_COLOR": "", "COLUMNS": "100", "LINES": "30"}
    stream = _Stream(variables, is_terminal=True)
    keyboard = _Stream(variables, is_terminal=True)
    keyboard.write(typed)
    keyboard.seek(0)
    return _run(arguments, {**terminal, **variables}, stream, stream, keyboard)


class _Stream(io.TextIOWrapper):
    """A standard stream, in the encoding that the variables of a command name."""

    def __init__(self, variables: dict[str, str], *, is_terminal: bool = False) -> None:
        encoding = variables.get("PYTHONIOENCODING", "utf-8")
        super().__init__(io.BytesIO(), encoding, newline="\n", write_through=True)
        self._is_terminal = is_terminal

    def isatty(self) -> bool:
        return self._is_terminal

    def written(self) -> str:
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode(errors="replace")


def _run(
    arguments: tuple[str, ...],
    variables: dict[str, str],
    stdout: _Stream,
    stderr: _Stream,
    stdin: _Stream | None = None,
) -> subprocess.CompletedProcess[str]:
    handlers = {number: signal.getsignal(number) for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)}
    refusal = AssertionError("a server needs a process: use harness.server_process.server_process")
    with ExitStack() as stack:
        stack.enter_context(warnings.catch_warnings(action="ignore", category=ResourceWarning))
        for number, handler in handlers.items():
            stack.callback(signal.signal, number, handler)
        stack.enter_context(
            mock.patch.multiple(sys, argv=["paymock", *arguments], stdin=stdin or _Stream({}))
        )
        stack.enter_context(mock.patch.multiple(sys, stdout=stdout, stderr=stderr))
        stack.enter_context(mock.patch.dict(os.environ, environment(**variables), clear=True))
        stack.enter_context(mock.patch.object(process, "suspend_collections"))
        stack.enter_context(mock.patch.object(process, "resume_collections", side_effect=refusal))
        try:
            main()
            code: object = 0
        except SystemExit as end:
            code = end.code
    return subprocess.CompletedProcess(arguments, int(str(code or 0)), stdout.written(), stderr.written())
