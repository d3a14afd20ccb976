"""Simulated deposits, and lists of payments."""

from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from paymock.app import control as control_service
from paymock.payments import payment as payments
from tests.support.client import DUE, HALF, Api, error_of, fields_of
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer
from tests.web.operations.control.steps import advance, deposit, move


class TestDeposits:
    def test_a_top_up_rescues_an_underpaid_payment(self, api: Api) -> None:
        payment = api.created("underpaid_expired")
        advance(api, 20)
        deposit(api, payment, DUE - HALF)
        assert move(api, payment, to="end").json()["status"] == "completed"

    def test_too_much_goes_to_review(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        deposit(api, payment, DUE + 5)
        attempt = move(api, payment, to="end").json()["attempts"][0]
        assert (attempt["status"], attempt["funding"]["overpaid_amount"]) == ("overpaid_review", "5")

    def test_a_deposit_is_observed_on_the_payments_own_clock(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        move(api, payment, seconds=10)
        [seen] = deposit(api, payment, DUE, asset="USDT").json()["attempts"][0]["deposits"]
        assert seen["observed_at"] == "2030-01-31T12:00:10.000Z"

    def test_a_key_makes_a_retry_safe(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        first = deposit(api, payment, HALF, key="deposit-1")
        advance(api, 20)
        deposit(api, payment, 1, key="deposit-2")
        again = deposit(api, payment, HALF, key="deposit-1")
        assert again.content == first.content
        assert again.headers["idempotent-replayed"] == "true"
        assert len(api.payment(payment["id"])["attempts"][0]["deposits"]) == 2
        assert error_of(deposit(api, payment, HALF + 1, key="deposit-1"))[0] == 409
        assert error_of(api.create(key="deposit-1"))[0] == 409
        assert error_of(deposit(api, payment, HALF, key="short")) == (400, "idempotency_key_invalid")

    def test_a_deposit_that_makes_no_sense_is_refused(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        bodies: list[Json] = [{}, {"amount": "0"}, {"amount": 5}, {"amount": "1", "asset": "WOOF"}]
        replies = [api.post(f"/_mock/payments/{payment['id']}/deposits", json=body) for body in bodies]
        assert [[*fields_of(reply)] for reply in replies] == [["amount"]] * 3 + [["asset"]]
        assert api.payment(payment["id"]) == payment

    def test_a_payment_takes_a_hundred_of_them(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        assert payments.MAX_DEPOSITS == 100
        monkeypatch.setattr(payments, "MAX_DEPOSITS", 3)
        payment = api.created("no_payment_expired")
        assert [deposit(api, payment, 1).status_code for _ in range(3)] == [200] * 3
        before = api.payment(payment["id"])
        assert error_of(deposit(api, payment, 1)) == (503, "capacity_exceeded")
        assert error_of(deposit(api, payment, 1, key="order-1001-payment")) == (503, "capacity_exceeded")
        assert api.create(key="order-1001-payment").status_code == 201
        assert api.payment(payment["id"]) == before

    def test_of_concurrent_ones_with_one_key_one_is_made(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        payment = api.created("no_payment_expired")

        def make(_: int) -> httpx.Response:
            with Api(server.url, contract, api.api_key) as own:
                return deposit(own, payment, 7, key="deposit-1001")

        with ThreadPoolExecutor(16) as threads:
            replies = list(threads.map(make, range(16)))
        assert len({reply.content for reply in replies}) == 1
        assert ["idempotent-replayed" in reply.headers for reply in replies].count(False) == 1
        assert [made["amount"] for made in api.payment(payment["id"])["attempts"][0]["deposits"]] == ["7"]


class TestLists:
    def test_each_has_its_scenario_and_its_age(self, api: Api) -> None:
        old = api.created("late_payment")
        advance(api, 7.5)
        young = api.created()
        move(api, young, seconds=1.25)
        found = api.get("/_mock/payments").json()["data"]
        assert [(one["id"], one["scenario"], one["age_seconds"], one["ahead_seconds"]) for one in found] == [
            (young["id"], "happy_path", 1.25, 1.25),
            (old["id"], "late_payment", 7.5, 0),
        ]
        assert {name: found[1][name] for name in old} == api.payment(old["id"])

    def test_payments_are_filtered(self, api: Api) -> None:
        first, second = api.created(order_id="a"), api.created("no_payment_expired", order_id="b")
        move(api, first, to="completed")

        def found(**wanted: str) -> list[str]:
            return [payment["id"] for payment in api.get("/_mock/payments", params=wanted).json()["data"]]

        assert found() == [second["id"], first["id"]]
        assert found(status="completed") == [first["id"]]
        assert found(scenario="no_payment_expired") == [second["id"]]
        assert found(order_id="a") == [first["id"]]
        assert found(order_id="a", scenario="no_payment_expired") == []
        assert (
            found(search="a")
            == found(search=first["id"])
            == found(search="a", status="completed")
            == [first["id"]]
        )
        assert found(search="pay_") == [second["id"], first["id"]]
        assert found(search="a", scenario="no_payment_expired") == found(search="o" * 128) == []

    def test_the_total_is_that_of_the_sandbox_whatever_is_listed(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        assert api.get("/_mock/payments").json() == {"data": [], "next_cursor": None, "total": 0}
        for number in range(3):
            api.created(order_id=f"order-{number}")
        with Api(server.url, contract) as another:
            another.created()
        for query in ({}, {"limit": 1}, {"order_id": "order-1"}, {"status": "completed"}):
            assert api.get("/_mock/payments", params=query).json()["total"] == 3
        api.post("/_mock/reset")
        assert api.get("/_mock/payments").json()["total"] == 0

    @pytest.mark.parametrize(
        "filters", [{}, {"order_id": "a"}, {"status": "awaiting_payment", "search": "a"}]
    )
    @pytest.mark.parametrize("scanned", [1, 2, 500])
    def test_each_page_is_full_but_the_last_and_none_is_empty(
        self, api: Api, monkeypatch: pytest.MonkeyPatch, filters: Json, scanned: int
    ) -> None:
        """However many payments are looked through at a time, and though the oldest ones are filtered out."""
        monkeypatch.setattr(control_service, "_SCANNED", scanned)
        created = [api.created(order_id=order_id) for order_id in ("other", *"abacabad", "other")]
        listed = [one["id"] for one in created if not filters or one["order_id"] == "a"][::-1]
        for limit in (1, 2, 4, 5):
            pages: list[list[str]] = []
            cursor: str | None = ""
            while cursor is not None:
                query = {"limit": limit, **filters, **({"cursor": cursor} if cursor else {})}
                page = api.get("/_mock/payments", params=query).json()
                pages.append([payment["id"] for payment in page["data"]])
                cursor = page["next_cursor"]
            assert [len(page) for page in pages[:-1]] == [limit] * (len(pages) - 1)
            assert pages[-1]
            assert [one for page in pages for one in page] == listed

    def test_a_query_that_makes_no_sense_is_refused_and_not_repeated(self, api: Api) -> None:
        numbers = ("limit=0", "limit=201", "limit=x", "limit=1&limit=2", "cursor=-1", "cursor=x")
        names = ("status=done", "scenario=X", "search=", f"search={'o' * 129}", "x=1")
        for query in (*numbers, *names):
            assert error_of(api.get(f"/_mock/payments?{query}")) == (400, "invalid_query")
        for malformed in ("%zz", "0xcafe000000000000000000000000000000c0ffee", "limit=1&secret", "&"):
            response = api.get(f"/_mock/payments?{malformed}")
            assert error_of(response) == (400, "invalid_query")
            assert "The query is not of the form name=value&name=value." in response.text
