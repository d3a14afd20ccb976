"""What a process tells of its server: the log, the ready file and the banner."""

import contextlib
import json
import os
import secrets
import shlex
import sys
from collections.abc import Sequence
from typing import TextIO

from paymock import __version__
from paymock.server.process import STANDARD_OUTPUT, StartError, end_line
from paymock.server.sockets import Listener
from paymock.settings import DEFAULT_PORT, MEMORY_STORE, OPEN_KEY_EXAMPLE, Settings
from paymock.stores.opening import sqlite_path
from paymock.web.app import METRICS_PATH
from paymock.web.telemetry.access_log import RequestLog


class Announcer:
    """Announces the server with these `settings` when it starts and when it stops: to `out`, with commands of
    `program`. Nothing is logged of that if the ready file is standard output: a program has started it.
    """

    def __init__(self, settings: Settings, out: TextIO | None, program: str = "paymock") -> None:
        form = settings.log
        color = form == "text" and out is not None and out.isatty() and not os.environ.get("NO_COLOR")
        self.log = RequestLog(out, form, requests=settings.access_log, color=color, secrets=settings.api_keys)
        self._settings = settings
        self._program = program
        self._path = settings.ready_file
        self._is_silent = settings.ready_file == STANDARD_OUTPUT

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
        settings = self._settings
        count, (scheme, _, place) = len(settings.api_keys), settings.store.partition(":")
        # without user and password, which end at the last @, and without options, which may be secrets, too
        place = place.partition("?")[0].removeprefix("//").rpartition("@")[2]
        store = f"{scheme}://{sqlite_path(settings.store) if scheme == 'sqlite' else place}"
        options = "" if url == f"http://127.0.0.1:{DEFAULT_PORT}" else f" --url {shlex.quote(url)}"
        options += " --key KEY" if count else ""
        example = f"any mk_test_NAME, for example {OPEN_KEY_EXAMPLE} (open mode)"
        lines = {
            "Dashboard": f"{url}/" if settings.control else None,
            "API": f"{url}/v1",
            "API keys": f"{count} configured" if count else example,
            "Swagger": f"{url}/swagger/",
            "Store": store if store != MEMORY_STORE else None,
            "Metrics": metrics,
            "Next": f"{self._program}{options} create",
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
