"""The access log, one line per request, as text or JSON, without API keys, addresses and bodies."""

import os
import re
import select
import stat
import sys
import time
import traceback
from collections.abc import Iterable
from contextlib import suppress
from typing import Any, TextIO
from urllib.parse import quote, unquote

import msgspec

from paymock.cache import BoundedCache
from paymock.http.responses import REPLAYED, WARNING
from paymock.text import without_secrets
from paymock.web.telemetry.exchange import Exchange

_SECRET_ORDER = re.compile("0[xX][0-9a-fA-F]{33,}|mk_test_[A-Za-z0-9_-]+|whsec_[0-9a-f]+")
"""What is a secret in an order id, which may contain any hash."""

_MIN_SECRET = 35
"""The least length of a secret without `_`."""

_WORDS = re.compile("[A-Z]{1,7}|/v1/[a-z]{1,12}(?:/pay_[a-z2-7]{40}(?:/[a-z]{1,12})?)?")
"""Methods, and paths of words and ids of payments: they need no masking. Most requests have such a path."""

_NUMBERS = re.compile("[0-9]+")
_MAX_REASONS = 16
_SAFE_IN_PATHS = "/:@!$&'()*+,;=~{}"
_MAX_PATH_LENGTH = 120
_RED, _YELLOW, _GREEN, _DIM, _RESET = "\x1b[31m", "\x1b[33m", "\x1b[32m", "\x1b[2m", "\x1b[0m"


class RequestLog:
    """Writes `text` or `json` to `out`, requests if `requests`. Masks `secrets`, and what looks like one."""

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
        self._secrets: set[str] = set()
        self.mask(secrets)
        self._descriptor: int | None = None
        if out is not None and os.name == "posix":
            with suppress(OSError, ValueError):  # it has none
                if not stat.S_ISREG(os.fstat(out.fileno()).st_mode):  # a pipe or a terminal can block
                    self._descriptor = out.fileno()
        self._dropped = 0
        self._silent_until: BoundedCache[str, float] = BoundedCache(_MAX_REASONS)

    def mask(self, secrets: Iterable[str]) -> None:
        """Mask these API keys K, too, and every `K.NAME`."""
        self._secrets |= {*secrets}
        keys = "|".join(map(re.escape, sorted(self._secrets, key=len, reverse=True)))
        self._keys = re.compile(rf"(?:{keys})(?:\.[A-Za-z0-9_-]+)?", re.I) if keys else None

    def request(self, exchange: Exchange) -> None:
        if not self._requests:
            return
        response, mask = exchange.response, self.without_secrets
        warning = next((mask(text) for name, text in response.headers if name == WARNING), None)
        is_replayed = REPLAYED in response.headers
        method, path = self.masked(exchange.method), self.masked(exchange.path)
        fault = response.fault.text if response.fault else None
        milliseconds = round(exchange.seconds * 1000, 2)
        if self._json:
            optional = {"key": exchange.key_name, "error": response.error, "replayed": is_replayed}
            optional |= {"fault": fault, "warning": warning}
            fields = {"method": method, "path": path, "status": response.status, "duration_ms": milliseconds}
            fields |= {name: value for name, value in optional.items() if value}
            self.event("request", "", **fields, **exchange.trace, request_id=exchange.id)
        else:
            color = _GREEN if response.status < 400 else _YELLOW if response.status < 500 else _RED
            notes = (response.error or warning or "replayed" * is_replayed, fault and f"fault {fault}")
            note = " ".join(filter(None, notes))
            status = self._colored(f"{response.status}", color)
            dim = self._colored(f"{milliseconds:.1f} ms  {exchange.id}", _DIM)
            words = time.strftime("%H:%M:%S"), status, exchange.key_name, f"{method:<4}", path, note, dim
            self.line("  ".join(filter(None, words)))

    def defect(self, request_id: str) -> None:
        """Log the exception that is being handled, without its message and values, which may be secret."""
        exception, _, trace = sys.exc_info()
        frames = [f"{frame.filename}:{frame.lineno} {frame.name}" for frame in traceback.extract_tb(trace)]
        name = exception.__name__ if exception else "unknown"
        text = "\n    ".join([f"defect in {request_id}: {name}, at", *frames])
        self.event("defect", text, exception=name, frames=frames, request_id=request_id)

    def event(self, name: str, text: str, **fields: Any) -> None:
        """Log an event: its text, or its name and its fields as JSON."""
        if self._json:
            now = time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime())
            text = msgspec.json.encode({"time": now, "event": name, **fields}).decode()
        self.line(text)

    def warning(self, text: str) -> None:
        self.event("warning", f"Warning: {text}", message=text)

    def store_failure(self, text: str) -> None:
        """Log why the store cannot be used, each reason once in a minute."""
        reason = _NUMBERS.sub("", text)
        if time.monotonic() >= self._silent_until.get(reason, 0.0):
            self._silent_until[reason] = time.monotonic() + 60
            self.warning(text)

    def line(self, text: str) -> None:
        """Write a line. It is dropped if nobody reads the pipe: a full one would block the whole server."""
        if self._descriptor is not None and not select.select((), (self._descriptor,), (), 0)[1]:
            self._dropped += 1
            return
        if self._dropped:
            dropped, self._dropped = self._dropped, 0
            note = f"({dropped} lines left out: nobody was reading)"
            self.event("lines_left_out", note, count=dropped)
        if self._out is None:
            return
        try:
            self._out.write(text + "\n")
            self._out.flush()
        except (OSError, ValueError):
            self._out = self._descriptor = None

    def masked(self, path: str) -> str:
        """Return the path or the method of a request with secrets masked, shortened to a bounded length."""
        if _WORDS.fullmatch(path):
            return self._without_keys(path)
        path = quote(unquote(path, errors="replace"), safe=_SAFE_IN_PATHS)  # secrets may be percent-encoded
        path = self.without_secrets(path)
        return path if len(path) <= _MAX_PATH_LENGTH else path[:_MAX_PATH_LENGTH] + "..."

    def without_secrets(self, text: str) -> str:
        """Return a text with all secrets masked, and what looks like one."""
        return without_secrets(self._without_keys(text))

    def masked_order(self, order_id: str) -> str:
        order_id = self._without_keys(order_id)
        may_hold_one = len(order_id) >= _MIN_SECRET or "_" in order_id
        return _SECRET_ORDER.sub("***", order_id) if may_hold_one else order_id

    def _without_keys(self, text: str) -> str:
        return self._keys.sub("***", text) if self._keys else text

    def _colored(self, text: str, color: str) -> str:
        return f"{color}{text}{_RESET}" if self._color else text
