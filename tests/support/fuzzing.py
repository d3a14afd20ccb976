"""Hooks for schemathesis: what a schema cannot say of a valid request, and a count of what was answered.

schemathesis loads it, in a process of its own. The counts go to the file that PAYMOCK_FUZZING_COUNTS names,
as lists of phase, operation, status and number. A method that is not the operation's own does not count.
"""

import atexit
import json
import os
import re
from collections import Counter
from itertools import count
from pathlib import Path
from typing import Any

import httpx
import schemathesis
from schemathesis.core.parameters import ParameterLocation

from paymock.rules.addresses import address_problem
from paymock.rules.amounts import raw_problem
from paymock.rules.times import parse_rfc3339
from paymock.schemas.control import MAX_WAIT
from paymock.schemas.fields import metadata_problem, url_problem
from tests.support.client import ORDER
from tests.support.clock import NOON
from tests.support.contract import Json

_answers: Counter[tuple[str, str, int]] = Counter()
_numbers = count(1)
_client = httpx.Client()
_KEY = "mk_test_fuzzing_"


@schemathesis.hook
def map_case(context: Any, case: Any) -> Any:
    """Gives valid requests what a schema cannot state. What is wrong on purpose stays wrong."""
    if case.path.endswith("/wait") and not _has_wrong_timeout(case.query or {}):
        case.query = {**(case.query or {}), "timeout": 0}
    if case.meta is None:
        return case
    _renew_idempotency_key(case)
    if not case.meta.generation.mode.is_positive:
        if isinstance(case.body, dict) and case.operation.label in _NULL_IS_ABSENT:
            case.body = {name: 0 if value is None else value for name, value in case.body.items()}
        return case
    if case.path.startswith("/_mock/payments/"):
        case.path_parameters["payment_id"] = _created(case, "/v1/payments", dict(ORDER))
    if case.path.startswith("/_mock/faults/"):
        rule = {"fault": "drop", "order_id": "another-order"}
        case.path_parameters["fault_id"] = _created(case, "/_mock/faults", rule)
    if isinstance(case.body, dict) and case.operation.label in _MENDED:
        case.body = _MENDED[case.operation.label](case.body)
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


def _payment(body: Json) -> Json:
    """No control characters beyond ASCII, a route that exists, addresses with a checksum, an expiry to come,
    metadata within its limits.
    """
    receive = {**ORDER["receive"], "address": _address(body["receive"]["address"])}
    if len(body["receive"]["amount"]) <= 70:  # then it fits in 256 bits together with its fee
        receive["amount"] = body["receive"]["amount"]
    body = {**_order_id(body), "receive": receive, "pay_with": ORDER["pay_with"]}
    if body.get("refund_to"):
        body["refund_to"] = {"chain": "bsc", "address": _address(body["refund_to"]["address"])}
    if body.get("expires_at") and (parse_rfc3339(body["expires_at"]) or 0) <= NOON:
        body["expires_at"] = ORDER["expires_at"]
    return body | ({"metadata": {}} if body.get("metadata") and metadata_problem(body["metadata"]) else {})


def _order_id(body: Json) -> Json:
    """No control characters beyond ASCII in an order id, if there is one."""
    if not isinstance(body.get("order_id"), str):
        return body
    return {**body, "order_id": re.sub("[\x80-\x9f]", "-", body["order_id"])}


def _address(text: str) -> str:
    return ORDER["receive"]["address"] if address_problem(text.lower()) else text.lower()


def _endpoint(body: Json) -> Json:
    return {**body, "url": "https://merchant.example/hooks"} if url_problem(str(body["url"])) else body


def _deposit(body: Json) -> Json:
    amount = "1" if raw_problem(str(body["amount"])) else body["amount"]
    return {"amount": amount} | ({"asset": "USDC"} if body.get("asset") else {})


def _override(body: Json) -> Json:
    """A scenario, at least where there is no course, and a course with values that there are."""
    body = _order_id(body)
    if body.get("course") is None:
        return {**body, "scenario": body.get("scenario") or "happy_path"}
    sending = [
        {name: "-1" if isinstance(value, str) and name != "share" else value for name, value in one.items()}
        | {"at": round(one["at"], 3)}
        for one in body["course"].get("sending", [])
    ]
    course = {**body["course"], "name": "mine", "simulates": "", "sending": sending}
    return {**body, "scenario": None, "course": course}


def _step(body: Json) -> Json:
    """Either `seconds` or `to`, and a time limit only for what waits."""
    step = {"to": body["to"]} if body.get("to") else {"seconds": body.get("seconds") or 1}
    return step | ({"until_observed": True, "timeout": 0} if body.get("until_observed") else {})


def _rule(body: Json) -> Json:
    """A fault that there is, for an operation on payments if the rule names one, and no control characters
    beyond ASCII.
    """
    about = {name: body[name] for name in ("order_id", "payment_id") if body.get(name)}
    operation = {"operation": "getPayment"} if about else {}
    return {**_order_id(body), **operation, "fault": "drop"}


_MENDED = {
    "POST /v1/payments": _payment,
    "POST /v1/webhooks": _endpoint,
    "POST /_mock/payments/{payment_id}/deposits": _deposit,
    "POST /_mock/payments/{payment_id}/advance": _step,
    "PUT /_mock/clock": lambda body: (
        {"speed": 1} | body | ({"now": ORDER["expires_at"]} if "now" in body else {})
    ),
    "POST /_mock/faults": _rule,
    "POST /_mock/next": _override,
}
_NULL_IS_ABSENT = ("POST /_mock/payments/{payment_id}/advance", "POST /_mock/next")
"""What excludes each other here may be null, which no schema says: clients would have useless fields."""

_FRESH_SANDBOX = ("POST /v1/webhooks", "POST /_mock/next", "POST /_mock/faults")
"""A sandbox holds a hundred of these, so each gets one of its own."""


def _created(case: Any, path: str, body: Json) -> str:
    reply = _client.post(
        f"{case.operation.base_url.rstrip('/')}{path}",
        json=body,
        headers={"Authorization": f"Bearer {_KEY}0", "Idempotency-Key": f"fuzzing-{next(_numbers)}"},
    )
    return str(reply.json()["id"])


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
        _answers[case.meta.phase.name, case.operation.label, response.status_code] += 1


@atexit.register
def _write_counts() -> None:
    rows = [[*answer, number] for answer, number in _answers.items()]
    Path(os.environ["PAYMOCK_FUZZING_COUNTS"]).write_text(json.dumps(rows), encoding="utf-8")
