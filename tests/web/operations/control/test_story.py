"""The story of a sandbox: what happened in it, as text."""

import httpx
import pytest

from paymock.app.story import MAX_CHANGES, MAX_PAYMENTS
from tests.support.client import Api, error_of, order

ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
NOW = "2030-01-31T12:00:00.000Z"


def story(api: Api, **about: str) -> list[str]:
    response = api.get("/_mock/story", params=about)
    assert response.headers["content-type"] == "text/plain; charset=utf-8"
    assert response.text.endswith("\n")
    return response.text.splitlines()


def test_an_empty_sandbox(api: Api) -> None:
    assert story(api) == [f"{NOW}, frozen", "", "payments:", "  none", "", "requests:", "  none"]
    api.speed(2.5)
    assert story(api)[0].endswith(", speed 2.5")


def test_payments_are_newest_first_with_what_has_happened(api: Api) -> None:
    first, second = api.created("underpaid_expired", order_id="a"), api.created(order_id="b")
    api.move(first, to="end")
    api.advance(5)
    lines = story(api)
    assert story(api) == lines  # it changes nothing
    assert [line for line in lines if line.startswith("  pay_")] == [
        f"  {second['id']}  payment_detected  happy_path  order b",
        f"  {first['id']}  underpaid_expired  underpaid_expired  order a",
    ]
    assert "    deposit  505000000000000000 USDT, finalized 16/16" in lines
    assert "    due      1010000000000000000 USDT" in lines
    assert "    x     30 s  underpaid_expired" in lines
    assert "           7 s  payment_detected      Confirmations 4/16, confirming" in lines
    assert [line.split()[1:] for line in lines[-2:]] == [
        ["201", "POST", "/v1/payments", "new", "key", "1"]
    ] * 2


def test_a_refused_and_a_lost_request_are_explained(api: Api) -> None:
    api.post("/v1/webhooks", json={"url": "ftp://a"}, headers={"Idempotency-Key": "endpoint-1"})
    with pytest.raises(httpx.RemoteProtocolError):
        api.get("/v1/chains", headers={"X-Mock-Fault": "drop"})
    api.get("/v1/payments/pay_x")
    refused, field, lost, _, message = story(api)[-5:]
    assert refused.endswith("  422   POST  /v1/webhooks  validation_failed")
    assert field.startswith("    url: must ")
    assert lost.endswith("  lost  GET   /v1/chains  fault drop")
    assert message.startswith("    This API key has no payment")


def test_equal_reads_in_a_row_are_one_line(api: Api) -> None:
    payment = api.created("no_payment_expired")
    times = "31 \N{MULTIPLICATION SIGN}"
    for _ in range(31):
        api.payment(payment["id"])
        api.advance(1)
    api.get(f"/v1/payments/{payment['id']}/attempts")
    polls, attempts = story(api)[-2:]
    path = f"200   GET   /v1/payments/{payment['id']}"
    assert polls == f"  2030-01-31T12:00:30.000Z  {path}  {times} getPayment  last shown expired at 30 s"
    assert attempts == f"  2030-01-31T12:00:31.000Z  {path}/attempts  shown expired at 30 s"


def test_fault_rules_and_overrides_are_shown_with_their_counts(api: Api) -> None:
    rule = {"fault": "delay=1", "operation": "createPayment", "order_id": "a", "skip": 1, "times": 2}
    api.post("/_mock/faults", json=rule)
    for _ in range(2):
        api.created(order_id="a")
    api.post("/_mock/next", json={"scenario": "late_payment", "metadata": {"test": "A"}})
    told = "\n".join(story(api))
    assert (
        "\n  2 times     delay=1  createPayment  order a  skip 1  seen 2  applied 1\n\noverrides:\n" in told
    )
    assert '\n  once        late_payment  {"test": "A"}\n\nrequests:\n' in told
    assert told.endswith("  201   POST  /v1/payments  new  key 2  fault delay=1")


def test_it_can_be_that_of_a_payment_or_an_order(api: Api) -> None:
    first, second, other = (api.created(order_id=name) for name in ("a", "a", "b"))
    api.create(order(order_id="a", receive=None))
    api.get(f"/v1/payments/{first['id']}")
    for rule in ({}, {"order_id": "a"}, {"order_id": "b"}, {"payment_id": other["id"]}):
        api.post("/_mock/faults", json={"fault": "drop", "skip": 9, **rule})

    def told(**about: str) -> tuple[list[str], int, list[str]]:
        lines = story(api, **about)
        payments = [line.split()[0] for line in lines if line.startswith("  pay_")]
        requests = [line.split()[1] for line in lines if line.startswith("  2030")]
        return payments, sum(" drop " in line for line in lines), requests

    assert told() == ([other["id"], second["id"], first["id"]], 4, ["201", "201", "201", "422", "200"])
    assert told(order_id="a") == ([second["id"], first["id"]], 2, ["201", "201", "422", "200"])
    assert told(payment_id=first["id"]) == ([first["id"]], 2, ["201", "422", "200"])
    assert told(payment_id=first["id"], order_id="a") == told(payment_id=first["id"])
    for about in (
        {"payment_id": first["id"], "order_id": "b"},
        {"payment_id": "pay_x", "order_id": "a"},
        {"payment_id": "pay_x"},
        {"order_id": "x"},
    ):
        refused = api.get("/_mock/story", params=about)
        assert error_of(refused) == (404, "payment_not_found")


def test_it_has_no_keys_addresses_and_control_characters(api: Api) -> None:
    secrets = (api.api_key, ADDRESS, ADDRESS[2:], "mk_test_other", "whsec_" + "0" * 64)
    for secret in secrets:
        api.created(order_id=f"\u202eorder {secret}")
        api.get(f"/v1/payments/{secret}")
    text = "\n".join(story(api))
    assert text.count("order \\u202eorder ***") == 5
    assert not any(secret in text for secret in secrets)


def test_it_is_bounded(api: Api) -> None:
    for number in range(30):
        payment = api.created("no_payment_expired", order_id=f"{number} " + "\N{PILE OF POO}" * 120)
    for _ in range(2 * MAX_CHANGES):
        api.deposit(payment, 1)
    for _ in range(MAX_CHANGES + 1):
        api.post("/_mock/faults", json={"fault": "drop", "order_id": "x" * 128})
        api.post("/_mock/next", json={"scenario": "happy_path", "order_id": "x" * 128})
        unknown = {f"{letter}\N{PILE OF POO}" * 60: 1 for letter in "abcdef"}
        api.create(order() | unknown)
        api.get("/v1/chains/x")
    api.move(payment, to="end")
    lines = story(api)
    titles = ["payments, the last 5:", "fault rules, the first 20:", "requests, the last 20:"]
    assert [lines.count(title) for title in titles] == [1, 1, 1]
    assert lines[3].startswith(f"  {payment['id']}  ")
    assert any("underpaid_expired" in line for line in lines)  # the last change of the long timeline
    assert sum(len(line.encode()) + 1 for line in lines) < 64 * 1024
    assert max(len(line.encode()) for line in lines) <= 163


def test_that_of_an_order_has_the_requests_of_payments_that_are_not_shown(api: Api) -> None:
    for number in range(MAX_PAYMENTS + 2):
        api.created(order_id="a", metadata={"number": number})
    text = api.get("/_mock/story", params={"order_id": "a"}).text
    assert text.count("  201   POST  /v1/payments") == MAX_PAYMENTS + 2


def test_an_empty_order_is_none_in_the_journal(api: Api) -> None:
    api.create(order(order_id=""))
    assert api.get("/_mock/requests").json()["data"][0]["order_id"] is None
