import re
from typing import Any

import pytest

from tests.support.client import Api, error_of, order
from tests.support.contract import Json

JSON = {"Content-Type": "application/json"}
CONFLICT = (409, "idempotency_key_reused_with_different_payload")


def test_a_replay_without_a_scenario_header_has_no_warning(api: Api) -> None:
    api.post("/_mock/next", json={"scenario": "late_payment"})
    for _ in range(2):
        assert "x-mock-warning" not in api.create(key="order-1001-payment").headers
    replay = api.create(key="order-1001-payment", scenario="happy_path")
    assert replay.headers["x-mock-warning"] == "replayed payment follows late_payment, not happy_path"


@pytest.mark.parametrize(
    ("path", "body", "always"),
    [
        ("/v1/payments", order(), ""),
        (
            "/v1/webhooks",
            {"url": "https://shop.example"},
            "nothing is delivered by this mock; poll the payment",
        ),
    ],
)
def test_a_key_that_the_service_would_have_forgotten_is_told(
    api: Api, path: str, body: Json, always: str
) -> None:
    api.speed(0)
    for seconds, is_too_old in ((0, False), (24 * 3600, False), (0.001, True)):
        if seconds:
            api.advance(seconds)
        reply = api.create(body, key="order-1001-payment", path=path)
        warning = reply.headers.get("x-mock-warning", "")
        assert (reply.status_code, warning.startswith(always)) == (201, True)
        assert ("24 hours" in warning) == is_too_old
        assert seconds or warning == always


def test_another_body_under_the_same_key_is_a_conflict_that_names_what_differs(api: Api) -> None:
    def dotted(number: int) -> dict[str, object]:
        return {"a.b": number, "a": {"b": number}}

    payments, hooks, deposits = (
        "/v1/payments",
        "/v1/webhooks",
        f"/_mock/payments/{api.created()['id']}/deposits",
    )
    url, usdt, n = {"url": "https://shop.example"}, {"amount": "5", "asset": "USDT"}, {"n": [0, 1]}
    rows: list[tuple[str, Json, Any, str]] = [
        (payments, order(), order(receive__amount="5", memo=1), "`receive.amount`, `memo` differ"),
        (payments, order(metadata=n), order(metadata={"n": [0, 1.0]}), "`metadata.n[1]` differs"),
        (payments, order(metadata=n), order(metadata={"n": [0, 1, 2]}), "`metadata.n[2]` differs"),
        (payments, order(metadata=n), order(metadata=n | {"\u202e": 1}), "`metadata.\\u202e` differs"),
        (payments, order(metadata=dotted(1)), order(metadata=dotted(2)), "`metadata.a.b` differs"),
        (payments, order(), order(**{"memo" * 30: 1}), f"`{'memo' * 25}` differs"),
        (payments, order(), order(**dict.fromkeys("abcdef")), "`a`, `b`, `c`, `d`, `e` and more differ"),
        (payments, order(), [order()], "`body` differs"),
        (payments, order(), order(expires_at="2001-01-01T00:00:00Z"), "`expires_at` differs"),
        (payments, order(refund_to=...), order(refund_to=None), "`refund_to` differs"),
        (payments, order(metadata=None), order(metadata=...), "`metadata` differs"),
        (payments, order(metadata={}), order(metadata=None), "`metadata` differs"),
        (hooks, url, url | {"events": ["*"]}, "`events` differs"),
        (hooks, url | {"events": ["*"]}, url | {"events": None}, "`events` differs"),
        (hooks, url | {"description": None}, url, "`description` differs"),
        (hooks, url, order(), " on POST /v1/webhooks"),
        (deposits, usdt, usdt | {"amount": "6"}, "`amount` differs"),
        (deposits, usdt, {"amount": "5"}, "`asset` differs"),
        (deposits, {"amount": "5"}, order(), f" on POST {deposits}"),
    ]  # fmt: skip
    for number, (path, body, other, differs) in enumerate(rows):
        key = f"order-{number}-payment"
        first = api.create(body, key=key, path=path)
        assert first.status_code in (200, 201)
        conflict = api.create(other, key=key, path=path if "differ" in differs else payments)
        assert error_of(conflict) == CONFLICT
        reason = f" body: {differs}" if "differ" in differs else differs
        assert f"{reason}. " in conflict.json()["error"]["message"]
        [newest] = api.get("/_mock/requests", params={"limit": 1}).json()["data"]
        assert path == deposits or newest["differs"] == re.findall("`(.+?)`", differs)
        malformed = api.post(path, content=b"{", headers={**JSON, "Idempotency-Key": key})
        assert error_of(malformed) == (400, "invalid_json")
        assert api.create(body, key=key, path=path).content == first.content


def test_all_warnings_of_a_reply_are_one_line(api: Api) -> None:
    for name in ("x-mock-scenaro", "X-MOCK-" + "A" * 99):
        warning = f"{name.title():.64} is no header of this mock; known: X-Mock-Scenario, X-Mock-Fault"
        for path in ("/v1/payments/pay_x", "/v1/chains", "/_mock/clock", "/nowhere", "/livez"):
            assert api.get(path, headers={name: "1"}).headers.get_list("x-mock-warning") == [warning]
    several = api.get("/v1/chains", headers={"x-mock-b": "1", "x-mock-fault": "delay=1", "x-mock-a": "1"})
    names = "X-Mock-A, X-Mock-B are no headers of this mock; known: X-Mock-Scenario, X-Mock-Fault"
    assert several.headers.get_list("x-mock-warning") == [names]
    for scenario, status in (("no_payment_expired", "expired"), ("happy_path", "completed")):
        api.move(api.create(key=f"key-{scenario}", scenario=scenario).json(), to=status)
        headers = {"Idempotency-Key": f"key-{scenario}", name: "1"}
        replay = api.post("/v1/payments", json=order(), headers=headers)
        assert (replay.status_code, replay.json()["status"]) == (201, "awaiting_payment")
        assert replay.headers.get_list("x-mock-warning") == [f"this payment is `{status}` by now; {warning}"]
