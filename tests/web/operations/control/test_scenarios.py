"""Overrides of the next creations, and scenarios of users: of a file, and as an inline course."""

import contextlib
from collections.abc import Iterator
from pathlib import Path

import httpx
import pytest
import yaml

from paymock.rules.scenarios import SCENARIOS
from paymock.settings import Settings
from tests.support.client import Api, error_of, fields_of, order
from tests.support.contract import Contract
from tests.support.courses import TWO_HALVES
from tests.support.server import RunningServer, running_server


class TestOverrides:
    @pytest.mark.parametrize("fault", ["status=503", "delay=1", "drop"])
    def test_a_scenario_is_for_the_next_payment_whatever_fault_its_requests_get(
        self, api: Api, fault: str
    ) -> None:
        pending = api.post("/_mock/next", json={"scenario": "settlement_failed"}).json()
        assert pending == {"data": [{"scenario": "settlement_failed", "times": 1}]}
        assert api.create(order(order_id="")).status_code == 422
        assert api.get("/_mock/next").json() == pending
        api.post("/_mock/faults", json={"fault": fault})
        with contextlib.suppress(httpx.RemoteProtocolError):
            api.create(key="order-1001-payment")
        created = api.create(key="order-1001-payment")
        assert created.status_code == 201
        assert api.move(created.json(), to="end").json()["status"] == "failed"
        assert api.get("/_mock/next").json() == {"data": []}

    def test_conditions_are_checked_and_select_what_is_cleared(self, api: Api) -> None:
        for name, value in (("metadata", None), ("order_id_prefix", ""), ("order_id_prefix", "b")):
            override = {"scenario": "happy_path", "order_id": "a", name: {} if value is None else value}
            assert name in fields_of(api.post("/_mock/next", json=override))
        api.post("/_mock/next", json={"scenario": "happy_path", "metadata": {"n": 1}})
        for text in ("{", "[]", "{}", "[" * 2000, '{"n": 1, "n": 1}'):
            assert api.delete("/_mock/next", params={"metadata": text}).status_code == 400
        for text, left in (('{"n": 2}', 1), ('{"n": 1.0}', 0)):
            api.delete("/_mock/next", params={"metadata": text})
            assert len(api.get("/_mock/next").json()["data"]) == left


HALVES = {"sending": [{"at": 0, "share": "1/2"}, {"at": 1.5, "share": "1/2"}, {"at": 3, "other_asset": True}]}


@pytest.fixture(scope="module")
def served(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RunningServer]:
    path: Path = tmp_path_factory.mktemp("scenarios") / "scenarios.toml"
    path.write_text(TWO_HALVES + '[[scenario]]\nname = "at_once"\nsending = [{ at = 0 }]\n')
    with running_server(Settings(port=0, scenarios=path)) as server:
        yield server


@pytest.fixture(scope="module")
def served_contract(served: RunningServer) -> Contract:
    return Contract.of(served.url, "/openapi.yaml", "/_mock/openapi.yaml")


@pytest.fixture
def own(served: RunningServer, served_contract: Contract) -> Iterator[Api]:
    """A client of that server; its sandbox stands still."""
    with Api(served.url, served_contract) as client:
        client.put("/_mock/clock", json={"speed": 0})
        yield client


class TestFile:
    """`serve --scenarios FILE`."""

    def test_a_payment_follows_the_scenario_of_its_header(self, own: Api) -> None:
        payment = own.created("two_halves")
        assert payment["status"] == "awaiting_payment"
        own.advance(5)
        assert own.payment(payment["id"])["status"] == "payment_detected"
        own.advance(13)
        assert own.payment(payment["id"])["status"] == "overpaid_review"
        assert own.get("/_mock/payments?scenario=two_halves").json()["data"][0]["id"] == payment["id"]

    def test_a_creation_and_its_replays_await_payment_whatever_happens_at_0_s(self, own: Api) -> None:
        created, replay = (own.create(key="at-once-payment", scenario="at_once") for _ in range(2))
        assert created.json()["status"] == "awaiting_payment"
        assert own.payment(created.json()["id"])["status"] == "payment_detected"
        own.advance(60)
        later = own.create(key="at-once-payment", scenario="happy_path")
        assert created.content == replay.content == later.content
        assert "follows at_once" in later.headers["X-Mock-Warning"]

    def test_an_unknown_name_is_refused_with_the_nearest(self, own: Api) -> None:
        refused = own.create(scenario="two_halfs")
        assert error_of(refused) == (400, "invalid_scenario")
        assert refused.json()["error"]["message"].endswith("at_once. The nearest is two_halves.")
        refused = own.post("/_mock/next", json={"scenario": "two_halfs"})
        [problem] = refused.json()["error"]["details"]
        assert problem["field"] == "scenario"
        assert problem["message"].endswith("two_halves, at_once; the nearest is two_halves")
        assert own.get("/_mock/payments", params={"scenario": "two_halfs"}).json()["data"] == []

    def test_a_name_can_be_given_to_the_next_creation(self, own: Api) -> None:
        [pending] = own.post("/_mock/next", json={"scenario": "at_once"}).json()["data"]
        assert (pending["scenario"], pending["course"]["sending"][0]["share"]) == ("at_once", "1/1")
        timeline = own.detail(own.created())["timeline"]
        assert (8.0, "payment_finalized") in [(one["offset_seconds"], one["status"]) for one in timeline]

    def test_the_documents_of_this_server_name_them(self, served: RunningServer, own: Api) -> None:
        for path in ("/openapi.yaml", "/_mock/openapi.yaml"):
            document = yaml.safe_load(own.get(path).text)
            names = document["components"]["schemas"]["Scenario"]["enum"]
            assert names == [*SCENARIOS, "two_halves", "at_once"]
        assert [one["name"] for one in own.get("/_mock/scenarios").json()["data"]] == names
        assert (
            "| `two_halves` | `overpaid_review` | 18 s | The customer pays in two halves. |"
            in own.get("/openapi.yaml").text
        )


class TestCourse:
    """`POST /_mock/next` with a course."""

    def test_the_next_creation_follows_it(self, api: Api) -> None:
        pending = api.post("/_mock/next", json={"course": HALVES}).json()
        assert [one["scenario"] for one in pending["data"]] == ["course"]
        sending = pending["data"][0]["course"]["sending"]
        assert sending[1] == {"at": 1.5, "share": "1/2", "plus": "0", "other_asset": False}
        assert api.get("/_mock/next").json() == pending
        payment = api.created()
        assert payment["status"] == "awaiting_payment"
        api.advance(3)
        attempt = api.payment(payment["id"])["attempts"][0]
        assert [deposit["asset"] for deposit in attempt["deposits"]] == ["USDT", "USDT", "USDC"]
        api.advance(30)
        assert api.payment(payment["id"])["status"] == "manual_review"
        assert len(api.get("/_mock/payments?scenario=course").json()["data"]) == 1

    def test_it_applies_as_often_as_it_says_until_a_reset(self, api: Api) -> None:
        api.post("/_mock/next", json={"course": HALVES | {"name": "mine"}, "times": 2})
        api.post("/_mock/next", json={"course": HALVES | {"name": "rest"}, "times": None})
        for _ in range(4):
            api.created()
        listed = api.get("/_mock/payments").json()["data"]
        assert [one["scenario"] for one in listed] == ["rest", "rest", "mine", "mine"]
        assert api.post("/_mock/reset").status_code == 204
        assert api.get("/_mock/next").json() == {"data": []}
        api.created()
        assert api.get("/_mock/payments").json()["data"][0]["scenario"] == "happy_path"

    def test_a_bad_course_is_refused_whole(self, api: Api) -> None:
        for body, field, message in (
            ({"course": HALVES, "scenario": "happy_path"}, "scenario", "give either a scenario or a course"),
            ({"course": {"sending": [{"at": 1.0001}]}}, "course.sending[0].at", "must be in steps of 0.001"),
            ({"course": {"name": "happy_path"}}, "course.name", "must not be one of the eight"),
            ({"course": {}, "times": 0}, "times", "must be an integer"),
            ({"course": None}, "scenario", "give either a scenario or a course"),
            (
                {"fault": "drop"},
                "fault",
                'is for a rule: POST /_mock/faults {"fault": …, "operation": "createP',
            ),
        ):
            [(named, said)] = fields_of(api.post("/_mock/next", json=body)).items()
            assert (named, said[: len(message)]) == (field, message)
        assert api.get("/_mock/next").json() == {"data": []}
