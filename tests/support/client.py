"""A merchant's backend: requests with a key, every reply held against the OpenAPI document."""

import copy
import re
import uuid
from collections.abc import Mapping
from typing import Any

import httpx

from tests.support.contract import Contract, Json

ORDER: Mapping[str, Any] = {
    "order_id": "order-1001",
    "receive": {
        "chain": "bsc",
        "asset": "USDT",
        "amount": "1000000000000000000",
        "address": "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed",
    },
    "settlement": {"mode": "same_chain_merchant_payout"},
    "pay_with": [{"chain": "bsc", "asset": "USDT"}],
    "refund_to": {"chain": "bsc", "address": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"},
    "expires_at": "2099-01-31T12:30:00Z",
    "metadata": {"customer_id": "c_1"},
}

DUE = 1_010_000_000_000_000_000
"""What is due for that order, in raw units."""

HALF = DUE // 2

AUTHORIZED = {"Authorization": "Bearer mk_test_demo"}
"""For requests that need some sandbox, whichever."""


def order(**changes: Any) -> Json:
    """A complete create request; `receive__amount="5"` changes a nested member, `...` removes one."""
    body = copy.deepcopy(dict(ORDER))
    for name, value in changes.items():
        with_member(body, name.replace("__", "."), value)
    return body


def with_member(body: Any, path: str, value: Any = ...) -> Any:
    """`body` itself, with `value` at `path`, in the notation of `details`; without a value, with nothing
    there.
    """
    *steps, last = [int(step) if step.isdigit() else step for step in re.findall(r"\w+", path)]
    target = body
    for step in steps:
        target = target[step]
    if value is ...:
        del target[last]
    else:
        target[last] = value
    return body


def fresh_key() -> str:
    """An idempotency key that was never used."""
    return f"key-{uuid.uuid4()}"


class Api(httpx.Client):
    """An HTTP client with an API key, whose replies keep the contract or fail the test."""

    def __init__(self, url: str, contract: Contract, api_key: str | None = None) -> None:
        self.api_key = api_key or f"mk_test_{uuid.uuid4().hex}"
        super().__init__(
            base_url=url,
            headers={"Authorization": f"Bearer {self.api_key}"},
            event_hooks={"response": [self._check]},
            timeout=60,
        )
        self.contract = contract

    def _check(self, response: httpx.Response) -> None:
        response.read()
        self.contract.check(response)

    def create(
        self,
        body: Any = None,
        *,
        key: str | None = None,
        scenario: str | None = None,
        path: str = "/v1/payments",
    ) -> httpx.Response:
        headers = {"Idempotency-Key": key or fresh_key()}
        if scenario is not None:
            headers["X-Mock-Scenario"] = scenario
        return self.post(path, json=order() if body is None else body, headers=headers)

    def created(self, scenario: str | None = None, **changes: Any) -> Json:
        response = self.create(order(**changes), scenario=scenario)
        assert response.status_code == 201, response.text
        payment: Json = response.json()
        return payment

    def payment(self, payment_id: str) -> Json:
        response = self.get(f"/v1/payments/{payment_id}")
        assert response.status_code == 200, response.text
        payment: Json = response.json()
        return payment

    def speed(self, speed: float) -> None:
        assert self.put("/_mock/clock", json={"speed": speed}).status_code == 200

    def advance(self, seconds: float) -> None:
        response = self.post("/_mock/clock/advance", json={"seconds": seconds})
        assert response.status_code == 200, response.text

    def move(self, payment: Json, **target: Any) -> httpx.Response:
        return self.post(f"/_mock/payments/{payment['id']}/advance", json=target)

    def deposit(self, payment: Json, amount: int, *, key: str | None = None, **more: Any) -> httpx.Response:
        headers = {"Idempotency-Key": key} if key else {}
        body = {"amount": str(amount), **more}
        return self.post(f"/_mock/payments/{payment['id']}/deposits", json=body, headers=headers)

    def detail(self, payment: Json) -> Json:
        found: Json = self.get(f"/_mock/payments/{payment['id']}").json()
        return found


def without_id(response: httpx.Response) -> bytes:
    """The body of an error without the id of its request, in which two of them differ."""
    return response.content.replace(response.headers["x-request-id"].encode(), b"")


def error_of(response: httpx.Response) -> tuple[int, str]:
    return response.status_code, response.json()["error"]["code"]


def fields_of(response: httpx.Response) -> dict[str, str]:
    """What a `validation_failed` says of each field."""
    assert error_of(response) == (422, "validation_failed"), response.text
    return {detail["field"]: detail["message"] for detail in response.json()["error"]["details"]}
