"""The report: its verdict, its text, and its JSON."""

import json
from typing import Any

import pytest

from paymock.verify.report import Finding, Report, Verdict, course_lines
from paymock.verify.rules import RULES, Severity

MONEY = [rule.name for rule in RULES.values() if rule.severity is Severity.MONEY]
ADVICE = [rule.name for rule in RULES.values() if rule.severity is Severity.ADVICE]

TIMELINE = [
    {
        "offset_seconds": 0.0,
        "status": "awaiting_payment",
        "event": "created: `awaiting_payment`",
        "reached": True,
    },
    {"offset_seconds": 5.0, "status": "payment_detected", "event": "`payment_detected`", "reached": True},
    {"offset_seconds": 1234.567, "status": "completed", "event": "`completed`", "reached": True},
    {"offset_seconds": 4000.0, "status": "failed", "event": "`failed`", "reached": False},
]


def request(at: float | None = 0.0, operation: str | None = "getPayment", **changes: Any) -> dict[str, Any]:
    """A request that read the state of this age."""
    plain = {"method": "GET", "path": "/v1/x", "status": 200, "fault": None, "idempotency": None}
    return {**plain, "operation": operation, "shown_offset_seconds": at, **changes}


def creation(**changes: Any) -> dict[str, Any]:
    return request(**{"operation": "createPayment", "status": 201, "idempotency": "new", **changes})


def finding(rule: str = "lost_sale", **changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "rule": rule,
        "scenario": "happy_path",
        "faults": ["getPayment@5: drop"],
        "token": "happy_path/getPayment@5=drop",
        "explanation": "The goods did not go out.",
        "story": ["Order:       verify-1, scenario happy_path.", "Wrong:       The goods did not go out."],
        "requests": [creation(), request(), request(None, fault="drop"), request(5.0)],
        "timeline": TIMELINE[:2],
        "order_id": "verify-1",
        "payment_id": "pay_1",
    }
    return Finding(**{**fields, **changes})


def report(*rules: str, trials: int = 12, undetermined: tuple[str, ...] = (), **more: Any) -> Report:
    return Report([finding(rule) for rule in rules], trials, [*undetermined], **more)


class TestVerdict:
    @pytest.mark.parametrize("undetermined", [(), ("expired: it hung",)])
    @pytest.mark.parametrize("advice", [[], ADVICE])
    @pytest.mark.parametrize("rule", MONEY)
    def test_a_rule_about_money_is_unsafe(
        self, rule: str, advice: list[str], undetermined: tuple[str, ...]
    ) -> None:
        judged = report(*advice, rule, undetermined=undetermined)
        assert (judged.verdict, judged.exit_code) == ("UNSAFE", 1)
        assert judged.summary == f"UNSAFE: {rule}; 12 trials in 0 s"

    @pytest.mark.parametrize("rules", [[], *([rule] for rule in ADVICE), ADVICE])
    def test_advice_changes_no_verdict(self, rules: list[str]) -> None:
        judged = report(*rules)
        assert (judged.verdict, judged.exit_code) == ("SAFE", 0)
        assert judged.summary == "SAFE: no rule about money was broken; 12 trials in 0 s"
        judged = report(*rules, undetermined=("expired: it hung",))
        assert (judged.verdict, judged.exit_code) == ("UNDETERMINED", 3)

    def test_nothing_seen_is_never_safe(self) -> None:
        judged = report(trials=0, seconds=2.4)
        assert (judged.verdict, judged.exit_code) == ("UNDETERMINED", 3)
        assert judged.summary == "UNDETERMINED: not everything was seen to its end; 0 trials in 2 s"

    def test_the_summary_names_each_broken_rule_once(self) -> None:
        judged = report("free_goods", "lost_sale", "lost_sale", "gives_up", trials=1)
        assert judged.summary == "UNSAFE: free_goods, lost_sale; 1 trial in 0 s"

    def test_every_verdict_has_an_exit_code_of_its_own(self) -> None:
        assert [*Verdict] == ["SAFE", "UNSAFE", "UNDETERMINED"]
        assert {report("lost_sale").exit_code, report().exit_code, report(trials=0).exit_code} == {0, 1, 3}


class TestText:
    def test_it_says_the_verdict_then_each_finding_and_what_else_there_is(self) -> None:
        judged = report(
            "lost_sale", "gives_up", undetermined=("expired: it hung",), notes=["no listAttempts"]
        )
        assert str(judged).startswith(f"{judged.summary}\n\nlost_sale (money)\n")
        assert str(judged).split("\n\n").index(str(judged.findings[1]).split("\n\n")[0]) == 4
        assert str(judged).endswith(
            "\n\nNot seen to its end:\n  - expired: it hung\n\nNotes:\n  - no listAttempts"
        )

    def test_a_safe_report_is_one_line(self) -> None:
        assert str(report()) == "SAFE: no rule about money was broken; 12 trials in 0 s"

    def test_a_finding_is_a_story_its_evidence_and_how_to_repeat_it(self) -> None:
        assert str(finding(occurrences=3)).splitlines() == [
            "lost_sale (money, 3 trials)",
            "  Order:       verify-1, scenario happy_path.",
            "  Wrong:       The goods did not go out.",
            "",
            "       0 s  created: awaiting_payment  createPayment 201 new, getPayment 200, getPayment ✗ drop",
            "       5 s  payment_detected           getPayment 200",
            "",
            "  Repeat: only='happy_path/getPayment@5=drop'",
        ]

    def test_a_command_repeats_what_a_command_has_found(self) -> None:
        assert str(finding(command="paymock verify --only x")).endswith("\n  Repeat: paymock verify --only x")

    def test_long_lines_are_broken(self) -> None:
        _, *story = str(finding(story=["Wrong:       " + "word " * 60])).split("\n\n")[0].splitlines()
        assert len(story) == 4
        assert all(len(line) <= 100 for line in story)
        assert [line.index("word") for line in story] == [15] * 4

    def test_control_characters_are_escaped(self) -> None:
        evil = "\x1b[2J\u202e"
        shown = finding(
            story=[f"Wrong: {evil}"],
            requests=[request(operation=None, path=evil)],
            command=evil,
            timeline=[TIMELINE[0] | {"event": evil}],
        )
        text = str(Report([shown], 1, [evil], notes=[evil]))
        assert "\x1b" not in text
        assert "\u202e" not in text
        assert text.count("\\x1b[2J\\u202e") == 6


class TestJson:
    def test_it_has_the_names_of_the_attributes(self) -> None:
        judged = report("lost_sale", undetermined=("x",), notes=["y"], scenarios=["happy_path"], seconds=1.5)
        document = json.loads(json.dumps(judged.as_json()))
        assert [*document] == [
            "verdict", "findings", "trials", "undetermined", "scenarios", "notes", "seconds",
        ]  # fmt: skip
        for name in document.keys() - {"findings"}:
            assert document[name] == getattr(judged, name)
        [shown] = document["findings"]
        assert shown.keys() == {
            "rule", "severity", "scenario", "faults", "token", "explanation", "story", "requests", "timeline",
            "order_id", "payment_id", "occurrences", "command",
        }  # fmt: skip
        for name, value in shown.items():
            assert value == getattr(judged.findings[0], name)

    @pytest.mark.parametrize(("rule", "severity"), [("double_payment", "money"), ("gives_up", "advice")])
    def test_a_finding_has_its_severity(self, rule: str, severity: str) -> None:
        assert report(rule).as_json()["findings"][0]["severity"] == severity


class TestCourseLines:
    def test_requests_stand_at_the_change_that_they_have_seen(self) -> None:
        requests = [creation(), request(), request(5.0), request(5.0), request(1234.567)]
        assert course_lines(TIMELINE, requests) == [
            "   0 s  created: awaiting_payment  createPayment 201 new, getPayment 200",
            "   5 s  payment_detected           getPayment 200 (2 times)",
            "1234.567 s  completed                  getPayment 200",
        ]

    def test_a_change_without_requests_is_drawn_and_a_future_one_is_not(self) -> None:
        assert course_lines(TIMELINE[1:], []) == ["   5 s  payment_detected", "1234.567 s  completed"]

    def test_what_showed_no_state_stands_with_the_request_before_it(self) -> None:
        lost, other = request(None, fault="status=500"), request(None, None, path="/v2", status=404)
        requests = [lost, creation(), request(5.0), lost, lost, other, request(5.0)]
        first, second = course_lines(TIMELINE[:2], requests)
        assert first.endswith("  getPayment ✗ status=500, createPayment 201 new")
        assert second.endswith(
            "  getPayment 200, getPayment ✗ status=500 (2 times), GET /v2 404, getPayment 200"
        )

    def test_without_a_payment_the_requests_are_all_there_is(self) -> None:
        refused = creation(at=None, status=500, fault="status=500", idempotency=None)
        assert course_lines([], [refused, refused]) == ["   0 s    createPayment ✗ status=500 (2 times)"]
        assert course_lines([], []) == ["   0 s"]
