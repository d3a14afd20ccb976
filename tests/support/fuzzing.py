"""Hooks for schemathesis: keys and sandboxes of their own for requests, and what was tried.

schemathesis loads it, in a process of its own. The phases and operations that were tried go to the file that
PAYMOCK_FUZZED names. A method that is not the operation's own does not count.
"""

import atexit
import json
import os
from itertools import count
from pathlib import Path
from typing import Any

import schemathesis
from schemathesis.core.parameters import ParameterLocation

from paymock.schemas.control import MAX_WAIT
from tests.support.contract import Json

_tried: set[tuple[str, str]] = set()
_numbers = count(1)
_KEY = "mk_test_fuzzing_"


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """Lets no request wait, and gives most a new idempotency key. What is wrong on purpose stays wrong."""
    if case.path.endswith("/wait") and not _has_wrong_timeout(case.query or {}):
        case.query = {**(case.query or {}), "timeout": 0}
    if case.meta is not None:
        _renew_idempotency_key(case)
    return case


@schemathesis.hook
def before_call(context: Any, case: Any, kwargs: Any) -> None:
    """The examples of a document are not mapped."""
    if case.meta is not None and case.meta.phase.name == "examples" and case.path.endswith("/wait"):
        case.query = {**(case.query or {}), "timeout": 0}


def _has_wrong_timeout(query: Json) -> bool:
    try:
        return "timeout" in query and not 0 <= float(query["timeout"]) <= MAX_WAIT
    except (TypeError, ValueError):
        return True


def _renew_idempotency_key(case: Any) -> None:
    """Few keys would make nearly every body a conflict, which is noticed before the body is looked at."""
    key: str | None = (case.headers or {}).get("Idempotency-Key")
    if key is None or case.meta.is_negative_at(ParameterLocation.HEADER):
        return
    if (number := next(_numbers)) % 5:  # the others may have been used
        case.headers["Idempotency-Key"] = f"{key[:100]}{number:08}"


_FRESH_SANDBOX = ("POST /v1/webhooks", "POST /_mock/next", "POST /_mock/faults")
"""A sandbox holds a hundred of these, so each gets one of its own."""


@schemathesis.auth(refresh_interval=None)
class Sandboxes:
    """Gives each case an API key."""

    def get(self, case: Any, context: Any) -> str:
        return f"{_KEY}{next(_numbers) if case.operation.label in _FRESH_SANDBOX else 0}"

    def set(self, case: Any, data: str, context: Any) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    if case.meta is not None and case.method == case.operation.method.upper():
        _tried.add((case.meta.phase.name, case.operation.label))


@atexit.register
def _write() -> None:
    Path(os.environ["PAYMOCK_FUZZED"]).write_text(json.dumps([*_tried]), encoding="utf-8")
