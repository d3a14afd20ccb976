import contextlib
from typing import Any

import httpx
import pytest

from tests.support.client import Api, error_of, fields_of, order
from tests.support.contract import Json


class TestOverrides:
    def next(self, api: Api, **body: Any) -> Json:
        response = api.post("/_mock/next", json=body)
        assert response.status_code == 200, response.text
        pending: Json = response.json()
        return pending

    def ends(self, api: Api, scenario: str | None = None) -> str:
        payment = api.created(scenario)
        status: str = api.move(payment, to="end").json()["status"]
        return status

    def test_a_refusal_that_was_asked_for_leaves_the_scenario_to_the_retry(self, api: Api) -> None:
        pending = self.next(api, fault="status=503", scenario="settlement_failed")
        assert pending == {
            "data": [
                {"scenario": "settlement_failed", "fault": None, "times": 1},
                {"scenario": None, "fault": "status=503", "times": 1},
            ]
        }
        assert error_of(api.create(key="order-1001-payment")) == (503, "injected_fault")
        created = api.create(key="order-1001-payment")
        assert created.status_code == 201
        assert api.move(created.json(), to="end").json()["status"] == "failed"

    def test_the_times_of_a_fault_are_tries_of_each_creation(self, api: Api) -> None:
        self.next(api, fault="status=503; times=2", times=2)
        keys = [f"order-100{number}-payment" for number in (1, 1, 1, 1, 2, 2, 2, 3)]
        assert [api.create(key=key).status_code for key in keys] == [503, 503, 201, 201, 503, 503, 201, 201]

    @pytest.mark.parametrize("fault", ["delay=1", "drop"])
    def test_a_fault_does_not_replace_a_standing_scenario(self, api: Api, fault: str) -> None:
        self.next(api, scenario="settlement_failed", times=None)
        self.next(api, fault=fault)
        with contextlib.suppress(httpx.RemoteProtocolError):
            api.create(key="order-1001-payment")
        [payment] = api.get("/_mock/payments").json()["data"]
        assert api.move(payment, to="end").json()["status"] == "failed"
        assert self.ends(api) == "failed"

    @pytest.mark.parametrize("fault", ["delay=1", "status=503"])
    def test_a_refused_request_takes_no_fault(self, api: Api, fault: str) -> None:
        pending = self.next(api, fault=fault, scenario="settlement_failed")
        assert api.create(order(order_id="")).status_code == 422
        assert api.get("/_mock/next").json() == pending

    def test_an_override_that_makes_no_sense_is_refused(self, api: Api) -> None:
        for body, field in (
            ({}, "scenario"),
            ({"scenario": "happy"}, "scenario"),
            ({"fault": "explode"}, "fault"),
            ({"scenario": "happy_path", "times": 0}, "times"),
            ({"scenario": "happy_path", "times": 1.5}, "times"),
            ({"scenario": "happy_path", "times": True}, "times"),
        ):
            assert list(fields_of(api.post("/_mock/next", json=body))) == [field]
