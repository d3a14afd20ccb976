"""The list of clients/acceptance.json, which the helpers of all languages pass, on the Python one."""

import json
import re
from collections.abc import Callable
from typing import Any

import pytest

from paymock.testing import NotReached, Refused, Sandbox, Unreachable
from tests.support.markdown import ROOT

CASES = json.loads((ROOT / "clients" / "acceptance.json").read_text(encoding="utf-8"))["cases"]

ERRORS = {"refused": Refused, "lost": Unreachable, "notReached": NotReached}


def snake_case(name: str) -> str:
    return re.sub("[A-Z]", lambda match: f"_{match[0].lower()}", name)


class Calls:
    """The calls of the list on a sandbox, and those of the application."""

    def __init__(self, sandbox: Sandbox) -> None:
        self.sandbox = sandbox
        self.ids: dict[str, str] = {}

    def method(self, name: str) -> Callable[..., Any]:
        call: Callable[..., Any] = getattr(self, name, None) or getattr(self.sandbox, snake_case(name))
        return call

    def create(self, order: str) -> Any:
        payment = self.sandbox.create(order_id=order, idempotency_key=f"payment-of-{order}")
        self.ids[order] = payment["id"]
        return payment

    def read(self, order: str) -> Any:
        path = f"/v1/payments/{self.ids[order]}"
        return self.sandbox._client.send("GET", path, decode=json.loads).result()

    def advanceTo(self, order: str, to: str, **options: Any) -> Any:  # noqa: N802 - the name in the list
        return self.sandbox.advance_payment(order, to, **options)

    def next(self, scenario: Any, **options: Any) -> Any:
        kind = "scenario" if isinstance(scenario, str) else "course"
        return self.sandbox.next(**{kind: scenario}, **options)


def matches(result: Any, expected: Any) -> bool:
    if isinstance(expected, list):
        return len(result) == len(expected) and all(map(matches, result, expected))
    if isinstance(expected, dict):
        return all(name in result and matches(result[name], value) for name, value in expected.items())
    return bool(result == expected)


@pytest.mark.parametrize("case", CASES, ids=lambda case: case["name"])
def test_the_python_helper_passes(paymock: Sandbox, case: dict[str, Any]) -> None:
    calls = Calls(paymock)
    start = paymock.now()
    for step in case["steps"]:
        *arguments, last = [
            calls.ids.get(value[1:], value) if str(value).startswith("$") else value
            for value in step.get("arguments", [])
        ] or [{}]
        is_options = isinstance(last, dict) and "sending" not in last
        options = {snake_case(name): value for name, value in last.items()} if is_options else {}
        arguments += [] if is_options else [last]
        try:
            result = calls.method(step["call"])(*arguments, **options)
        except (Refused, Unreachable, NotReached) as error:
            result = error
        expected = [kind for name, kind in ERRORS.items() if name in step]
        assert [type(result)] == expected if expected else not isinstance(result, Exception), (step, result)
        assert "refused" not in step or matches(vars(result), step["refused"]), (step, result)
        assert "result" not in step or matches(result, step["result"]), (step, result)
        assert "seconds" not in step or (result - start).total_seconds() == step["seconds"], (step, result)
        assert re.search(".*".join(map(re.escape, step.get("contains", []))), str(result), re.DOTALL), result
        assert not [text for text in step.get("lacks", []) if text in str(result)], result
