"""What a sandbox has seen, its fresh start, and a server without the control API."""

import httpx
import pytest

from paymock.app import journal
from paymock.settings import Settings
from tests.support.client import Api, error_of, order
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server
from tests.web.operations.control.steps import advance


class TestJournal:
    def test_it_says_what_happened_and_nothing_secret(self, api: Api, server: RunningServer) -> None:
        created = api.create(key="order-1001-payment")
        api.create(key="order-1001-payment")
        api.create(order(order_id="other"), key="order-1001-payment")
        api.get("/v1/payments/pay_unknown?secret=1")
        api.get(f"/v1/payments/{api.api_key}")
        api.get("/v1/paymentz")
        api.delete("/v1/payments")
        httpx.get(f"{server.url}/v1/payments/pay_unknown")
        entries = api.get("/_mock/requests").json()["data"]
        facts = ("method", "path", "status", "error", "idempotency")
        assert [tuple(entry[fact] for fact in facts) for entry in entries] == [
            ("DELETE", "/v1/payments", 405, "method_not_allowed", None),
            ("GET", "/v1/paymentz", 404, "not_found", None),
            ("GET", "/v1/payments/***", 404, "payment_not_found", None),
            ("GET", "/v1/payments/pay_unknown", 404, "payment_not_found", None),
            ("POST", "/v1/payments", 409, "idempotency_key_reused_with_different_payload", "conflict"),
            ("POST", "/v1/payments", 201, None, "replayed"),
            ("POST", "/v1/payments", 201, None, "new"),
        ]  # fmt: skip
        assert entries[-1]["request_id"] == created.headers["x-request-id"]
        assert api.api_key not in api.get("/_mock/requests").text

    def test_it_has_the_time_of_the_sandbox_even_of_requests_that_do_not_need_it(self, api: Api) -> None:
        advance(api, 90)
        for path in ("nothing", "chains", "payments/pay_x"):
            api.get(f"/v1/{path}")
        api.create()
        entries = api.get("/_mock/requests").json()["data"]
        assert [entry["virtual_at"] for entry in entries] == ["2030-01-31T12:01:30.000Z"] * 4
        api.post("/_mock/reset")
        api.get("/v1/nothing")
        [entry] = api.get("/_mock/requests").json()["data"]
        assert entry["virtual_at"] == entry["at"]

    def test_it_says_which_payment_a_request_is_about(self, api: Api) -> None:
        one, other = (
            api.create(key=key).json()["id"] for key in ("order-1001-payment", "order-1002-payment")
        )
        api.create(key="order-1001-payment")
        api.payment(one)
        api.get(f"/v1/payments/{other}/attempts")
        api.get(f"/v1/payments/pay_{'a' * 40}")
        api.get("/v1/payments/pay_unknown")
        api.create(order(order_id=""))

        def about(query: str = "") -> list[str | None]:
            entries = api.get(f"/_mock/requests{query}").json()["data"]
            return [entry["payment_id"] for entry in entries]

        assert about() == [None, None, f"pay_{'a' * 40}", other, one, one, other, one]
        assert about(f"?payment_id={one}") == [one] * 3
        assert about(f"?payment_id={one}&limit=2") == [one] * 2
        assert about("?payment_id=pay_unknown") == []

    def test_it_keeps_the_last_thousand(self, api: Api, monkeypatch: pytest.MonkeyPatch) -> None:
        assert journal.LENGTH == 1000
        monkeypatch.setattr(journal, "LENGTH", 5)
        payment = api.created()
        for path in ("chains", "webhooks", "chains/bsc/assets", "chains"):
            api.get(f"/v1/{path}")
        found = api.get(f"/_mock/requests?payment_id={payment['id']}&limit=1").json()["data"]
        assert [entry["status"] for entry in found] == [201]
        api.get("/v1/nothing")
        entries = api.get("/_mock/requests?limit=5").json()["data"]
        paths = ["/v1/nothing", "/v1/chains", "/v1/chains/bsc/assets", "/v1/webhooks", "/v1/chains"]
        assert [entry["path"] for entry in entries] == paths
        assert api.get("/_mock/requests?limit=3").json()["data"] == entries[:3]
        assert api.delete("/_mock/requests").status_code == 204
        assert api.get("/_mock/requests?limit=5").json() == {"data": []}


class TestReset:
    def test_it_forgets_everything_of_this_sandbox(
        self, api: Api, server: RunningServer, contract: Contract
    ) -> None:
        with Api(server.url, contract) as other:
            untouched = other.created()
            first = api.create(key="order-1001-payment").json()
            api.create({"url": "https://x.example"}, path="/v1/webhooks")
            api.post("/_mock/next", json={"scenario": "no_payment_expired", "times": None})
            advance(api, 100)
            assert api.post("/_mock/reset").status_code == 204
            assert error_of(api.get(f"/v1/payments/{first['id']}")) == (404, "payment_not_found")
            assert api.get("/v1/webhooks").json() == {"data": []}
            paths = [entry["path"] for entry in api.get("/_mock/requests").json()["data"]]
            assert paths == ["/v1/webhooks", f"/v1/payments/{first['id']}"]
            assert api.get("/_mock/clock").json() == {"now": "2030-01-31T12:00:00.000Z", "speed": 1.0}
            again = api.create(key="order-1001-payment")
            assert "idempotent-replayed" not in again.headers
            assert again.json()["id"] != first["id"]
            assert other.payment(untouched["id"]) == untouched


def test_without_control_none_of_it_is_there(contract: Contract) -> None:
    with (
        running_server(Settings(port=0, control=False)) as server,
        httpx.Client(base_url=server.url) as client,
    ):
        headers = {"Authorization": "Bearer mk_test_demo", "X-Mock-Fault": "status=503"}
        for method, path, _ in contract.operations():
            if path.startswith("/_mock/"):
                assert (
                    client.request(method, path.replace("{payment_id}", "pay_x"), headers=headers).status_code
                    == 404
                )
        payment_id = httpx.post(
            f"{server.url}/v1/payments",
            json=order(),
            headers={"Authorization": "Bearer mk_test_demo", "Idempotency-Key": "order-1001-payment"},
        ).json()["id"]
        pages = ("/", f"/payments/{payment_id}", "/requests", "/swagger/control/")
        for path in ("/_mock/openapi.yaml", "/_mock/events", *pages):
            assert error_of(client.get(path, headers=headers)) == (404, "not_found")
        for path in (f"/checkout/{payment_id}.json", f"/checkout/{payment_id}"):
            assert client.get(path).status_code == 200
        assert b"/_mock" not in client.get("/swagger/").content
        assert client.get("/v1/chains", headers=headers).status_code == 200
