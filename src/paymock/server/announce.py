"""What a process tells of its server: the log, the ready file and the banner."""

import contextlib
import json
import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TextIO

from paymock import __version__
from paymock.server.process import STANDARD_OUTPUT, StartError, end_line
from paymock.server.sockets import Listener
from paymock.settings import DEFAULT_PORT, MEMORY_STORE, OPEN_KEY_EXAMPLE
from paymock.stores.opening import sqlite_path
from paymock.web.app import METRICS_PATH
from paymock.web.telemetry.access_log import RequestLog


@dataclass(frozen=True)
class Output:
    """What a process writes: its log in a format, with its requests or without, to `out`; the ready file, or
    None; and a banner, with commands of `program`, of a server with these API `keys`, none in open mode, on
    the `store` at a URL, with a dashboard or without.
    """

    log_format: str
    access_log: bool
    ready_file: Path | None
    out: TextIO | None
    program: str
    keys: tuple[str, ...]
    store: str
    dashboard: bool


class Announcer:
    """Announces the server of a process when it starts and when it stops. Nothing is logged of that if the
    ready file is standard output: a program has started the server.
    """

    def __init__(self, output: Output) -> None:
        out, form = output.out, output.log_format
        color = form == "text" and out is not None and out.isatty() and not os.environ.get("NO_COLOR")
        self.log = RequestLog(out, form, requests=output.access_log, color=color, secrets=output.keys)
        self._output = output
        self._path = output.ready_file
        self._is_silent = output.ready_file == STANDARD_OUTPUT

    def remove_ready_file(self) -> None:
        """Remove the ready file of an earlier server. Raises StartError."""
        if self._path is not None and not self._is_silent:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise StartError(f"cannot write the ready file {self._path}: {error.strerror}") from None

    def ready(self, listeners: Sequence[Listener]) -> None:
        """Write the addresses of the server and of its metrics to the ready file, as JSON with the process
        id, and log the banner, or the event `started`. The file is created atomically. Raises StartError.
        """
        url, port = listeners[0].url, listeners[0].port
        metrics = listeners[1].url + METRICS_PATH if listeners[1:] else None
        told_metrics = {"metrics": metrics} if metrics else {}
        line = json.dumps({"url": url, "port": port, "pid": os.getpid(), **told_metrics}) + "\n"
        if self._is_silent:
            sys.stdout.write(line)
            sys.stdout.flush()
            return
        if self._path is not None:
            draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
            try:
                with draft.open("x", encoding="utf-8") as file:  # follows no link that somebody has put there
                    file.write(line)
                draft.replace(self._path)
            except OSError as error:
                with contextlib.suppress(OSError):
                    draft.unlink()
                raise StartError(f"cannot write the ready file {self._path}: {error.strerror}") from None
        count, (scheme, _, place) = len(self._output.keys), self._output.store.partition(":")
        # without user and password, which end at the last @, and without options, which may be secrets, too
        place = place.partition("?")[0].removeprefix("//").rpartition("@")[2]
        store = f"{scheme}://{sqlite_path(self._output.store) if scheme == 'sqlite' else place}"
        options = "" if url == f"http://127.0.0.1:{DEFAULT_PORT}" else f" --url {shlex.quote(url)}"
        options += " --key KEY" if count else ""
        example = f"any mk_test_NAME, for example {OPEN_KEY_EXAMPLE} (open mode)"
        lines = {
            "Dashboard": f"{url}/" if self._output.dashboard else None,
            "API": f"{url}/v1",
            "API keys": f"{count} configured" if count else example,
            "Swagger": f"{url}/swagger/",
            "Store": store if store != MEMORY_STORE else None,
            "Metrics": metrics,
            "Next": f"{self._output.program}{options} create",
            "Stop": "Ctrl-C",
        }
        rows = [f"  {name:<10}{text}" for name, text in lines.items() if text]
        self.log.event(
            "started",
            "\n".join([f"paymock {__version__}    MOCK: no real funds", *rows]),
            url=url,
            open_mode=not count,
            store=store,
            version=__version__,
            mock=True,
            **told_metrics,
        )

    def stopped(self, reason: str) -> None:
        if not self._is_silent:
            end_line()
            self.log.event("stopped", f"stopped ({reason})", reason=reason)
