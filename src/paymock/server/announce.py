"""What a process tells of its server: the log, the ready file and the banner."""

import contextlib
import json
import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import TextIO

from paymock import __version__
from paymock.server.process import STANDARD_OUTPUT, StartError, end_line
from paymock.server.sockets import Listener
from paymock.settings import DEFAULT_PORT, MEMORY_STORE, OPEN_KEY_EXAMPLE, Settings
from paymock.stores.opening import sqlite_path
from paymock.web.app import METRICS_PATH
from paymock.web.telemetry.access_log import RequestLog


class ReadyFile:
    """Tells programs where the server is: in the file at `path`, on standard output, or not at all."""

    def __init__(self, path: Path | None) -> None:
        self.is_standard_output = path == STANDARD_OUTPUT
        self._path = None if self.is_standard_output else path

    def remove(self) -> None:
        """Remove the file of an earlier server. Raises StartError."""
        if self._path is not None:
            try:
                self._path.unlink(missing_ok=True)
            except OSError as error:
                raise StartError(f"cannot write the ready file {self._path}: {error.strerror}") from None

    def write(self, **facts: object) -> None:
        """Write a line of JSON. The file is created atomically. Raises StartError."""
        line = json.dumps(facts) + "\n"
        if self.is_standard_output:
            sys.stdout.write(line)
            sys.stdout.flush()
        elif self._path is not None:
            draft = self._path.with_name(f".{self._path.name}.{secrets.token_hex(8)}")
            try:
                with draft.open("x", encoding="utf-8") as file:  # follows no link that somebody has put there
                    file.write(line)
                draft.replace(self._path)
            except OSError as error:
                with contextlib.suppress(OSError):
                    draft.unlink()
                raise StartError(f"cannot write the ready file {self._path}: {error.strerror}") from None


class Announcer:
    """Announces a server when it starts and stops: to `out`, with commands of `program`. Nothing is logged of
    that if the ready file is standard output: a program has started it.
    """

    def __init__(self, settings: Settings, out: TextIO | None, program: str = "paymock") -> None:
        form, self._key_count, self._has_control = settings.log, len(settings.api_keys), settings.control
        color = form == "text" and out is not None and out.isatty() and not os.environ.get("NO_COLOR")
        self.log = RequestLog(out, form, requests=settings.access_log, color=color, secrets=settings.api_keys)
        self.ready_file = ReadyFile(settings.ready_file)
        self._store = shown_store(settings.store)
        self._program = program

    def ready(self, listeners: Sequence[Listener]) -> None:
        """Write the ready file, with the process id, and log the banner, or the event. Raises StartError."""
        url, port = listeners[0].url, listeners[0].port
        metrics = {"metrics": listeners[1].url + METRICS_PATH} if listeners[1:] else {}
        self.ready_file.write(url=url, port=port, pid=os.getpid(), **metrics)
        if not self.ready_file.is_standard_output:
            facts = {"store": self._store, "version": __version__, "mock": True, **metrics}
            text = self.banner(url, **metrics)
            self.log.event("started", text, url=url, open_mode=not self._key_count, **facts)

    def stopped(self, reason: str) -> None:
        if not self.ready_file.is_standard_output:
            end_line()
            self.log.event("stopped", f"stopped ({reason})", reason=reason)

    def banner(self, url: str, metrics: str | None = None) -> str:
        count = self._key_count
        options = "" if url == f"http://127.0.0.1:{DEFAULT_PORT}" else f" --url {shlex.quote(url)}"
        options += " --key KEY" if count else ""
        ignores_port = "PORT" in os.environ and "PAYMOCK_PORT" not in os.environ
        example = f"any mk_test_NAME, for example {OPEN_KEY_EXAMPLE} (open mode)"
        lines = {
            "Dashboard": f"{url}/" if self._has_control else None,
            "API": f"{url}/v1",
            "API keys": f"{count} configured" if count else example,
            "Swagger": f"{url}/swagger/",
            "Store": self._store if self._store != MEMORY_STORE else None,
            "Metrics": metrics,
            "Next": f"{self._program}{options} create",
            "Stop": "Ctrl-C",
            "Note": "the variable PORT is ignored: set PAYMOCK_PORT" if ignores_port else None,
        }
        rows = [f"  {name:<10}{text}" for name, text in lines.items() if text]
        return "\n".join([f"paymock {__version__}    MOCK: no real funds", *rows])


def shown_store(url: str) -> str:
    """The URL of a store without user and password, and without options, which may be secrets, too."""
    scheme, _, place = url.partition(":")
    # user and password end at the last @
    place = place.partition("?")[0].removeprefix("//").rpartition("@")[2]
    return f"{scheme}://{sqlite_path(url) if scheme == 'sqlite' else place}"
