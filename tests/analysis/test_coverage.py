from contextlib import suppress
from itertools import pairwise
from typing import Any

import httpx
import pytest

from paymock.analysis.coverage import Coverage, Group, coverage, merged
from paymock.testing import Sandbox
from tests.support.journal import PAYMENT, JournalWriter, payment
from tests.support.specification import COURSES

NOTHING = Coverage({})


@pytest.fixture
def journal() -> JournalWriter:
    return JournalWriter()


def group(result: Coverage, name: str) -> Group:
    return next(group for group in result.groups if group.name == name)


class TestItems:
    def test_scenarios_statuses_and_transitions_are_those_of_the_specification(self) -> None:
        courses = [[status for _, status in course] for course in COURSES.values()]
        assert list(group(NOTHING, "scenarios").items) == list(COURSES)
        assert set(group(NOTHING, "statuses").items) == {status for course in courses for status in course}
        assert set(group(NOTHING, "transitions").items) == {
            f"{before}->{after}" for course in courses for before, after in pairwise(course)
        }


class TestSeen:
    def test_nothing_is_seen_without_requests(self) -> None:
        assert coverage([], []).seen == NOTHING.seen
        assert NOTHING.percent == 0

    @pytest.mark.parametrize("scenario", COURSES)
    def test_a_scenario_is_seen_by_its_final_status(self, journal: JournalWriter, scenario: str) -> None:
        *earlier, final = [status for _, status in COURSES[scenario]]
        for status in earlier:
            journal.read(status)
        assert coverage(journal.entries, [payment(scenario=scenario)]).seen["scenarios"] == []
        journal.read(final)
        seen = coverage(journal.entries, [payment(scenario=scenario)]).seen
        assert seen["scenarios"] == [scenario]
        assert set(seen["statuses"]) == {*earlier, final}
        assert len(seen["transitions"]) == len(earlier)

    def test_a_scenario_of_ones_own_does_not_count(self, journal: JournalWriter) -> None:
        journal.read("completed")
        seen = coverage(journal.entries, [payment(scenario="two_halves")]).seen
        assert (seen["scenarios"], seen["statuses"]) == ([], ["completed"])

    def test_a_transition_is_not_seen_if_a_status_was_missed(self, journal: JournalWriter) -> None:
        journal.creation()
        journal.read("payment_finalized")
        journal.read(None, fault="drop", status=0)
        journal.read("settlement_pending")
        assert coverage(journal.entries, []).seen["transitions"] == ["payment_finalized->settlement_pending"]

    def test_transitions_are_those_of_one_payment(self, journal: JournalWriter) -> None:
        journal.read("awaiting_payment")
        journal.read("payment_detected", payment_id="pay_" + "b" * 40)
        assert coverage(journal.entries, []).seen["transitions"] == []

    @pytest.mark.parametrize(
        ("changes", "seen"),
        [
            ({"status": 404, "error": "payment_not_found"}, ["payment_not_found"]),
            ({"status": 503, "error": "injected_fault", "fault": "status=503"}, ["injected_fault"]),
            ({"status": 404, "error": "payment_not_found", "fault": "delay=1"}, ["payment_not_found"]),
            ({"status": 0, "error": "payment_not_found", "fault": "drop"}, []),
            ({"status": 404, "error": "payment_not_found", "fault": "truncate=9"}, []),
            ({"status": 405, "error": "method_not_allowed"}, []),
        ],
    )
    def test_an_error_is_seen_if_its_reply_was_whole(
        self, journal: JournalWriter, changes: dict[str, Any], seen: list[str]
    ) -> None:
        journal.read(None, **changes)
        assert coverage(journal.entries, []).seen["errors"] == seen

    def test_a_fault_is_seen_by_its_kind(self, journal: JournalWriter) -> None:
        journal.read(None, fault="status=500; times=2")
        assert coverage(journal.entries, []).seen["faults"] == ["status"]


class TestResult:
    def test_percentages_are_rounded_down(self) -> None:
        result = Coverage({"scenarios": ["happy_path"], "errors": ["injected_fault", "unknown"]})
        assert [group.percent for group in result.groups] == [12.5, 0, 0, 25, 0]
        everything = Coverage({group.name: group.items for group in NOTHING.groups})
        assert everything.percent == 100
        assert not any(group.missing for group in everything.groups)

    def test_sandboxes_are_merged(self) -> None:
        one, other = Coverage({"faults": ["drop"]}), Coverage({"faults": ["hang"], "errors": []})
        assert merged([one, other, one]).seen == Coverage({"faults": ["hang", "drop"]}).seen
        assert merged([]).seen == NOTHING.seen

    def test_the_text_is_a_table_and_the_json_has_the_same(self) -> None:
        found = Coverage({"faults": ["drop"], "errors": NOTHING.groups[3].items})
        lines = str(found).splitlines()
        assert lines[0] == "Group           Seen  Percent  Missing"
        assert lines[-3:] == [
            "errors           4/4     100%",
            "faults           1/7    14.2%  status, delay, reset, hang, extra, truncate",
            "total           5/42    11.9%",
        ]
        assert max(map(len, lines)) <= 110
        assert found.as_json()["percent"] == 11.9
        assert found.as_json()["groups"][-1] == {
            "name": "faults",
            "percent": 14.2,
            "seen": ["drop"],
            "missing": ["status", "delay", "reset", "hang", "extra", "truncate"],
        }


def test_an_application_can_see_everything(paymock: Sandbox) -> None:
    key = {"Authorization": f"Bearer {paymock.api_key}"}
    with httpx.Client(base_url=f"{paymock.url}/v1", headers=key, timeout=0.5) as http:
        for scenario, course in COURSES.items():
            payment_id = paymock.create(scenario=scenario)["id"]
            http.get(f"/payments/{payment_id}")
            for _, status in course[1:]:
                paymock.advance_payment(payment_id, to=status)
                http.get(f"/payments/{payment_id}")
        for fault in ("status=503", "delay=1", "drop", "reset", "hang", "extra", "truncate=1"):
            with suppress(httpx.TransportError):
                http.get(f"/payments/{payment_id}", headers={"X-Mock-Fault": fault})
        http.get(f"/payments/{PAYMENT}")
        http.post("/payments", json={}, headers={"Idempotency-Key": "refused-payment"})
        http.get("/chains/nowhere/assets")
    result = coverage(paymock.requests(), paymock.payments())
    assert result.percent == 100, str(result)
