import pytest

from paymock.app import control as control_service
from tests.support.client import HALF, Api, error_of, fields_of
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer


class TestDeposits:
    def test_a_key_makes_a_retry_safe(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        first = api.deposit(payment, HALF, key="deposit-1")
        api.advance(20)
        api.deposit(payment, 1, key="deposit-2")
        again = api.deposit({"id": payment["order_id"]}, HALF, key="deposit-1")
        assert again.content == first.content
        assert again.headers["idempotent-replayed"] == "true"
        assert len(api.payment(payment["id"])["attempts"][0]["deposits"]) == 2
        assert error_of(api.deposit(payment, HALF + 1, key="deposit-1"))[0] == 409
        for newer in (api.created(), {"id": payment["order_id"]}):
            assert error_of(api.deposit(newer, HALF, key="deposit-1"))[0] == 409
        assert error_of(api.create(key="deposit-1"))[0] == 409
        assert error_of(api.deposit(payment, HALF, key="short")) == (400, "idempotency_key_invalid")

    def test_a_deposit_that_makes_no_sense_is_refused(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        bodies: list[Json] = [{}, {"amount": "0"}, {"amount": 5}, {"amount": "1", "asset": "WOOF"}]
        replies = [api.post(f"/_mock/payments/{payment['id']}/deposits", json=body) for body in bodies]
        assert [[*fields_of(reply)] for reply in replies] == [["amount"]] * 3 + [["asset"]]
        assert api.payment(payment["id"]) == payment


class TestLists:
    def test_the_total_is_that_of_the_sandbox(
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
        limit, few = "limit must be an integer from 1 to 200.", "search must have at most 128 characters."
        texts = {f"limit={bad}": limit for bad in ("0", "201", "x", "1e1", "5.0", "")}
        texts |= {"search=": "search must not be empty.", f"search={'o' * 129}": few}
        others = ("limit=1&limit=2", "cursor=-1", "cursor=x", "status=done", "scenario=X", "x=1")
        for query, text in (*texts.items(), *((other, "") for other in others)):
            response = api.get(f"/_mock/payments?{query}")
            assert error_of(response) == (400, "invalid_query")
            assert text in response.text
        for malformed in ("%zz", "0xcafe000000000000000000000000000000c0ffee", "limit=1&secret", "&"):
            response = api.get(f"/_mock/payments?{malformed}")
            assert error_of(response) == (400, "invalid_query")
            assert "The query is not of the form name=value&name=value." in response.text
