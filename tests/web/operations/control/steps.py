"""What a test does to a sandbox and its payments."""

from typing import Any

import httpx

from tests.support.client import Api
from tests.support.contract import Json


def advance(api: Api, seconds: float) -> Json:
    response = api.post("/_mock/clock/advance", json={"seconds": seconds})
    assert response.status_code == 200, response.text
    clock: Json = response.json()
    return clock


def move(api: Api, payment: Json, **target: Any) -> httpx.Response:
    return api.post(f"/_mock/payments/{payment['id']}/advance", json=target)


def deposit(api: Api, payment: Json, amount: int, **more: Any) -> httpx.Response:
    headers = {"Idempotency-Key": more.pop("key")} if "key" in more else {}
    body = {"amount": str(amount), **more}
    return api.post(f"/_mock/payments/{payment['id']}/deposits", json=body, headers=headers)


def detail(api: Api, payment: Json) -> Json:
    found: Json = api.get(f"/_mock/payments/{payment['id']}").json()
    return found
