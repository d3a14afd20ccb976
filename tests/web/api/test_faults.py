"""Faults that a request asks for with the header `X-Mock-Fault`."""

import time

import httpx
import pytest

from tests.support.client import Api, error_of, order


class TestFaults:
    def faulty(self, api: Api, fault: str, key: str = "order-1001-payment") -> httpx.Response:
        return api.post("/v1/payments", json=order(), headers={"Idempotency-Key": key, "X-Mock-Fault": fault})

    @pytest.mark.parametrize("status", [400, 429, 500, 503, 599])
    def test_a_status_is_answered_and_nothing_is_stored(self, api: Api, status: int) -> None:
        response = self.faulty(api, f"status={status}")
        assert error_of(response) == (status, "injected_fault")
        assert ("retry-after" in response.headers) == (status in (429, 503))
        created = api.create(key="order-1001-payment")
        assert created.status_code == 201
        assert "idempotent-replayed" not in created.headers

    def test_only_the_first_tries_of_a_key_suffer(self, api: Api) -> None:
        statuses = [self.faulty(api, "status=503; times=2").status_code for _ in range(4)]
        assert statuses == [503, 503, 201, 201]
        assert self.faulty(api, "status=503; times=2", key="another-key").status_code == 503

    def test_without_a_key_the_tries_of_a_path_are_counted(self, api: Api) -> None:
        def read(path: str) -> int:
            return api.get(path, headers={"X-Mock-Fault": "status=503; times=1"}).status_code

        assert [read("/v1/chains"), read("/v1/chains"), read("/v1/webhooks")] == [503, 200, 503]

    def test_different_faults_are_counted_apart(self, api: Api) -> None:
        faults = ["status=503; times=1", "status=500; times=1", "status=503; times=1"]
        replies = [api.get("/v1/chains", headers={"X-Mock-Fault": fault}) for fault in faults]
        assert [reply.status_code for reply in replies] == [503, 500, 200]

    def test_a_refusal_is_dropped_too(self, api: Api) -> None:
        for path in (f"/v1/payments/pay_{'a' * 40}", "/v1/chains/narnia/assets"):
            with pytest.raises(httpx.RemoteProtocolError):
                api.get(path, headers={"X-Mock-Fault": "drop"})
        headers = {"Idempotency-Key": "order-1001-payment", "X-Mock-Fault": "drop"}
        with pytest.raises(httpx.RemoteProtocolError):
            api.post("/v1/payments", json=order(order_id=""), headers=headers)
        errors = [entry["error"] for entry in api.get("/_mock/requests").json()["data"]]
        assert errors == ["validation_failed", "chain_not_found", "payment_not_found"]

    def test_a_dropped_reply_has_been_carried_out(self, api: Api) -> None:
        with pytest.raises(httpx.RemoteProtocolError):
            self.faulty(api, "drop; times=1")
        [entry] = api.get("/_mock/requests").json()["data"]
        assert (entry["status"], entry["idempotency"]) == (0, "new")
        retry = self.faulty(api, "drop; times=1")
        assert retry.status_code == 201
        assert retry.headers["idempotent-replayed"] == "true"
        assert len(api.get("/_mock/payments").json()["data"]) == 1

    def test_a_delay_is_kept(self, api: Api) -> None:
        started = time.monotonic()
        assert self.faulty(api, "delay=150").status_code == 201
        assert time.monotonic() - started >= 0.15

    @pytest.mark.parametrize("fault", ["explode", "status=200", "delay=30001", ""])
    def test_a_fault_that_is_none_is_refused(self, api: Api, fault: str) -> None:
        assert error_of(self.faulty(api, fault)) == (400, "invalid_fault")

    def test_a_stranger_cannot_ask_for_faults(self, api: Api) -> None:
        response = api.get("/v1/chains", headers={"X-Mock-Fault": "status=503", "Authorization": "Bearer x"})
        assert response.status_code == 401
