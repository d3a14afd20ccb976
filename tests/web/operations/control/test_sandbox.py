"""What a sandbox has seen, its fresh start, and a server without the control API."""

import httpx
import pytest

from paymock.settings import Settings
from tests.support.client import Api, error_of, order
from tests.support.contract import Contract, Json
from tests.support.server import running_server


class TestJournal:
    def test_it_has_the_time_of_the_sandbox_even_of_requests_that_do_not_need_it(self, api: Api) -> None:
        api.advance(90)
        for path in ("nothing", "chains", "payments/pay_x"):
            api.get(f"/v1/{path}")
        api.create()
        entries = api.get("/_mock/requests").json()["data"]
        assert [entry["virtual_at"] for entry in entries] == ["2030-01-31T12:01:30.000Z"] * 4
        api.post("/_mock/reset")
        api.get("/v1/nothing")
        [entry] = api.get("/_mock/requests").json()["data"]
        assert entry["virtual_at"] == entry["at"]

    @pytest.mark.parametrize(("options", "kept"), [({}, 1000), ({"journal": 100}, 100)])
    def test_it_keeps_a_thousand_or_as_many_as_the_server_says(
        self, contract: Contract, options: Json, kept: int
    ) -> None:
        with running_server(Settings(port=0, **options)) as server, Api(server.url, contract) as api:
            payment = api.created()
            for number in range(kept - 1):
                api.get("/v1/chains" if number % 2 else "/v1/webhooks")
            found = api.get(f"/_mock/requests?payment_id={payment['id']}&limit=1").json()["data"]
            assert [entry["status"] for entry in found] == [201]
            api.get("/v1/nothing")
            entries = api.get(f"/_mock/requests?limit={kept}").json()["data"]
            ends = entries[0]["path"], entries[-1]["path"]
            assert (len(entries), *ends) == (kept, "/v1/nothing", "/v1/webhooks")
            assert api.get("/_mock/requests?limit=3").json()["data"] == entries[:3]
            assert len(api.get("/_mock/requests?limit=1000").json()["data"]) == kept
            assert api.delete("/_mock/requests").status_code == 204
            assert api.get("/_mock/requests?limit=5").json() == {"data": []}


@pytest.mark.parametrize("path", ["/_mock/events?payment_id=pay_x", "/checkout/pay_x/events"])
def test_who_asks_for_an_event_stream_is_told_to_poll(api: Api, path: str) -> None:
    reply = api.get(path)
    assert error_of(reply) == (404, "not_found")
    assert "poll `GET /_mock/clock` or `/checkout/{payment_id}.json`" in reply.json()["error"]["message"]


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
        for path in ("/_mock/openapi.yaml", *pages):
            assert error_of(client.get(path, headers=headers)) == (404, "not_found")
        for path in (f"/checkout/{payment_id}.json", f"/checkout/{payment_id}"):
            assert client.get(path).status_code == 200
        assert b"/_mock" not in client.get("/swagger/").content
        assert client.get("/v1/chains", headers=headers).status_code == 200
