"""Hooks for schemathesis: what a schema cannot say of a valid request, and a count of what was answered.

schemathesis loads it, in a process of its own. The counts go to the file that PAYMOCK_FUZZING_COUNTS names.
"""

import atexit
import json
import os
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import schemathesis

from paymock.core.fields import url_problem
from paymock.core.metadata import metadata_problem
from tests.support.client import ORDER

_answers: Counter[str] = Counter()
_numbers = count(1)


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """Gives a valid creation a route that exists, addresses with a checksum, an expiry to come, and metadata
    within the limits that a schema cannot state. What is wrong on purpose stays wrong."""
    valid = case.meta is not None and case.meta.generation.mode.is_positive
    if valid and case.operation.label == "POST /v1/payments" and isinstance(case.body, dict):
        case.body = {**case.body, "receive": ORDER["receive"], "pay_with": ORDER["pay_with"]}
        case.body |= {name: ORDER[name] for name in ("refund_to", "expires_at") if case.body.get(name)}
        if case.body.get("metadata") and metadata_problem(case.body["metadata"]):
            case.body |= {"metadata": ORDER["metadata"]}
    if valid and case.operation.label == "POST /v1/webhooks" and url_problem(str(case.body["url"])):
        case.body = {**case.body, "url": "https://merchant.example/hooks"}
    return case


@schemathesis.auth(refresh_interval=None)
class Sandboxes:
    """Gives each case a key: a sandbox of its own to each webhook endpoint, since one holds a hundred."""

    def get(self, case: Any, context: Any) -> str:
        return f"mk_test_fuzzing_{next(_numbers) if case.operation.label == 'POST /v1/webhooks' else 0}"

    def set(self, case: Any, data: str, context: Any) -> None:
        case.headers["Authorization"] = f"Bearer {data}"


@schemathesis.hook
def after_call(context: Any, case: Any, response: Any) -> None:
    _answers[f"{case.operation.label} {response.status_code}"] += 1


@atexit.register
def _write_counts() -> None:
    Path(os.environ["PAYMOCK_FUZZING_COUNTS"]).write_text(json.dumps(_answers), encoding="utf-8")
