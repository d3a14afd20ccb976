"""The entry point of the executables that scripts/binary builds.

One file is two processes. The one that is started unpacks a temporary folder, starts the other, passes
signals on to it, and deletes the folder at the end. The other one runs this. A folder is one process.
"""

import os
import signal
import sys
import time
from pathlib import Path
from typing import Any

_SAME_SECONDS = 0.5
_STOP_SIGNALS = (signal.SIGINT, signal.SIGTERM)
_SET_PARENT_DEATH_SIGNAL = 1

_install, _raise = signal.signal, signal.raise_signal
_last: dict[int, float] = {}


class _IgnoreDuplicate:
    """A handler of a signal that comes twice when it is sent to both processes, as Ctrl-C is."""

    def __init__(self, handler: Any) -> None:
        self._handler = handler

    def __call__(self, number: int, frame: object) -> None:
        now = time.monotonic()
        if now - _last.get(number, -_SAME_SECONDS) >= _SAME_SECONDS:
            _last[number] = now
            self._handler(number, frame)


def _install_once(number: int, handler: Any) -> Any:
    if number in _STOP_SIGNALS and callable(handler) and not isinstance(handler, _IgnoreDuplicate):
        handler = _IgnoreDuplicate(handler)
    return _install(number, handler)


def _raise_again(number: int) -> None:
    """For a signal that paymock.verify.process has deferred: raised again, it is no duplicate."""
    _last.pop(number, None)
    _raise(number)


def _restore_environment() -> None:
    """What paymock starts gets the environment that paymock was started in."""
    for name in [name for name in os.environ if name.startswith("_PYI_")]:
        del os.environ[name]
    if sys.platform == "linux":
        os.environ.pop("LD_LIBRARY_PATH_ORIG", None)
        _, *original = os.environ.pop("LD_LIBRARY_PATH").split(":", 1)
        if original:
            os.environ["LD_LIBRARY_PATH"] = original[0]


def _end_with_parent() -> None:
    """SIGKILL ends only the process that was started; this one then gets SIGTERM."""
    if sys.platform == "linux":
        from ctypes import CDLL

        CDLL(None).prctl(_SET_PARENT_DEATH_SIGNAL, signal.SIGTERM)


def _run_as_second_process(run: Any, folder: str) -> None:
    parent = os.getppid()
    _end_with_parent()
    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:
        _install_once(signal.SIGINT, signal.default_int_handler)
    signal.signal, signal.raise_signal = _install_once, _raise_again  # type: ignore[assignment]
    try:
        run()
    finally:
        for number in _STOP_SIGNALS:  # the second one would kill the interpreter while it ends
            _install(number, signal.SIG_IGN)
        if os.getppid() != parent:
            from shutil import rmtree

            rmtree(folder, ignore_errors=True)


def main() -> None:
    _restore_environment()
    from paymock.__main__ import main as run

    folder: str = sys._MEIPASS  # type: ignore[attr-defined]  # set by PyInstaller
    if Path(folder).parent == Path(sys.executable).parent:
        run()
    else:
        _run_as_second_process(run, folder)


main()
