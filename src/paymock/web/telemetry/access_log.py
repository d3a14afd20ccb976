"""One line for each request, for a person at a terminal or as JSON. Never an API key, a raw address or a
body.
"""

import os
import re
import select
import stat
import sys
import time
import traceback
from functools import lru_cache
from typing import Any, TextIO
from urllib.parse import quote, unquote

import msgspec

from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.telemetry.trace import trace_of

_SECRET = re.compile("(?:0[xX])?[0-9a-fA-F]{33,}|(?:mk_|whsec_)[A-Za-z0-9_-]+")
"""What looks like an address, a hash, an API key or a webhook secret. Ids have no such run of hex digits."""

_PLAIN_IN_PATHS = "/:@!$&'()*+,;=~{}"
_PATH_LENGTH = 120
_RED, _YELLOW, _GREEN, _DIM, _PLAIN = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


class RequestLog:
    """Writes to `out`, in the form `text` or `json`; `requests` False leaves out the requests."""

    def __init__(
        self,
        out: TextIO | None,
        form: str = "text",
        *,
        requests: bool = True,
        color: bool = False,
        secrets: tuple[str, ...] = (),
    ) -> None:
        self._out: TextIO | None = out
        self._json = form == "json"
        self._requests = requests
        self._color = color
        self._secrets = sorted(secrets, key=len, reverse=True)
        self._stream = _stream_of(out)
        self._dropped = 0
        self._masked_before = lru_cache(maxsize=1024)(self._masked)  # most paths come again and again

    def request(
        self,
        method: str,
        path: str,
        response: Response,
        request_id: str,
        seconds: float,
        asked: Request | None = None,
    ) -> None:
        """Records a reply, with the trace that the request names."""
        if not self._requests:
            return
        path, milliseconds = self.masked(path), round(seconds * 1000, 2)
        if self._json:
            fields = {"method": method, "path": path, "status": response.status, "duration_ms": milliseconds}
            fields |= {"error": response.error} if response.error else {}
            fields |= {"replayed": True} if response.replayed else {}
            fields |= trace_of(asked) if asked else {}
            self.event("request", **fields, request_id=request_id)
        else:
            status = self._painted(f"{response.status}", _color_of(response.status))
            note = f"  {response.error}" if response.error else ""
            dim = self._painted(f"{milliseconds:.1f} ms  {request_id}", _DIM)
            self.line(f"{time.strftime('%H:%M:%S')}  {status}  {method:<4}  {path}{note}  {dim}")

    def defect(self, request_id: str) -> None:
        """Records the exception that is being handled. Its message and values are left out: they may be
        secret.
        """
        kind, _, trace = sys.exc_info()
        frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]
        name = kind.__name__ if kind else "unknown"
        if self._json:
            self.event("defect", exception=name, frames=frames, request_id=request_id)
        else:
            self.line("\n    ".join([f"defect in {request_id}: {name}, at", *frames]))

    def event(self, name: str, **fields: Any) -> None:
        """Writes a JSON line."""
        now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
        self.line(msgspec.json.encode({"time": now, "event": name, **fields}).decode())

    def line(self, text: str) -> None:
        """Writes a line as it is. A reader that has gone away, or does not read, does not stop the server."""
        if self._stream is not None and not select.select((), (self._stream,), (), 0)[1]:
            self._dropped += 1  # a full pipe would make the whole server wait for whoever should empty it
            return
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            if self._json:
                self.event("lines_left_out", count=dropped)
            else:
                self._write(f"({dropped} lines left out: nobody was reading)")
        self._write(text)

    def _write(self, text: str) -> None:
        if self._out is None:
            return
        try:
            self._out.write(text + "\n")
            self._out.flush()
        except (OSError, ValueError):
            self._out = self._stream = None

    def masked(self, path: str) -> str:
        """A request's path without what is secret, or looks like it."""
        return self._masked_before(path) if len(path) <= _PATH_LENGTH else self._masked(path)

    def _masked(self, path: str) -> str:
        path = quote(unquote(path, errors="replace"), safe=_PLAIN_IN_PATHS)  # what is encoded cannot hide
        path = self.without_secrets(path)
        return path if len(path) <= _PATH_LENGTH else path[:_PATH_LENGTH] + "..."

    def without_secrets(self, text: str) -> str:
        """A text without what is secret, or looks like it."""
        for secret in self._secrets:
            text = text.replace(secret, "***")
        return _SECRET.sub("***", text)

    def _painted(self, text: str, color: str) -> str:
        return f"{color}{text}{_PLAIN}" if self._color else text


def _stream_of(out: TextIO | None) -> int | None:
    """The file descriptor of `out` when somebody has to read it: a pipe or a terminal, not a file."""
    if out is None or os.name != "posix":
        return None
    try:
        descriptor = out.fileno()
        return None if stat.S_ISREG(os.fstat(descriptor).st_mode) else descriptor
    except (OSError, ValueError):
        return None


def _color_of(status: int) -> str:
    return _GREEN if status < 400 else _YELLOW if status < 500 else _RED
