import json
import re
import shlex
import subprocess
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from paymock.client.text import shell_word
from paymock.schemas.control import AddFinding
from paymock.schemas.validation import checker_for, validate
from paymock.verify.oracle import RULES, Severity
from paymock.verify.report import Finding, Report, Verdict, for_dashboard, junit, markdown, transcript

MONEY = [rule.name for rule in RULES.values() if rule.severity is Severity.MONEY]
ADVICE = [rule.name for rule in RULES.values() if rule.severity is Severity.ADVICE]
TOKEN = "happy_path/getPayment@5=drop"

EVIL = "\x1b[31mred\x1b[0m\x00 \u202e"
ESCAPED = "\\x1b[31mred\\x1b[0m\\x00 \\u202e"

TIMELINE = [
    {"offset_seconds": at, "event": event, "reached": at < 4000}
    for at, event in (
        (0.0, "created: `awaiting_payment`"),
        (5.0, "`payment_detected`"),
        (1234.567, "`completed`"),
        (4000.0, "`failed`"),
    )
]


def request(at: float | None = 0.0, operation: str | None = "getPayment", **changes: Any) -> dict[str, Any]:
    plain = {"method": "GET", "path": "/v1/x", "status": 200, "fault": None, "idempotency": None}
    return {**plain, "operation": operation, "shown_offset_seconds": at, **changes}


def creation(**changes: Any) -> dict[str, Any]:
    return request(**{"operation": "createPayment", "status": 201, "idempotency": "new", **changes})


def finding(rule: str = "lost_sale", **changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "rule": rule,
        "scenario": "happy_path",
        "faults": ["getPayment@5: drop"],
        "token": TOKEN,
        "explanation": f"<{rule}> & more",
        "story": ["Order:       verify-1, scenario happy_path.", "Wrong:       The goods did not go out."],
        "requests": [creation(), request(), request(None, fault="drop"), request(5.0)],
        "timeline": TIMELINE[:2],
        "order_id": "verify-1",
        "payment_id": "pay_1",
    }
    return Finding(**{**fields, **changes})


def test_a_long_finding_is_shortened_for_the_dashboard() -> None:
    long = finding(payment_id=None, command="x" * 3000, faults=[f"{number}: drop" for number in range(30)])
    shown = validate(checker_for(AddFinding), for_dashboard(long), AddFinding)
    assert (len(shown.command), shown.command[-4:]) == (2000, "x...")
    assert shown.faults[18:] == ["18: drop", "... and 11 more"]


def report(
    *rules: str | Finding, undetermined: tuple[str, ...] = (), trials: int = 12, **more: Any
) -> Report:
    findings = [rule if isinstance(rule, Finding) else finding(rule) for rule in rules]
    return Report(findings, trials, [*undetermined], **more)


class TestVerdict:
    @pytest.mark.parametrize("undetermined", [(), ("expired: it hung",)])
    @pytest.mark.parametrize("rule", MONEY)
    def test_a_rule_about_money_is_unsafe(self, rule: str, undetermined: tuple[str, ...]) -> None:
        judged = report(*ADVICE, rule, rule, undetermined=undetermined, trials=1)
        assert (judged.verdict, judged.exit_code) == ("UNSAFE", 1)
        assert judged.summary == f"UNSAFE: {rule}; 1 trial in 0 s"
        assert report(*MONEY).summary == f"UNSAFE: {', '.join(MONEY)}; 12 trials in 0 s"

    @pytest.mark.parametrize("rules", [[], ADVICE])
    def test_advice_changes_no_verdict(self, rules: list[str]) -> None:
        judged = report(*rules)
        assert (judged.verdict, judged.exit_code) == (Verdict.SAFE, 0)
        assert judged.summary == "SAFE: no rule about money was broken; 12 trials in 0 s"
        judged = report(*rules, undetermined=("expired: it hung",))
        assert (judged.verdict, judged.exit_code) == ("UNDETERMINED", 3)

    def test_nothing_seen_is_never_safe(self) -> None:
        judged = report(trials=0, seconds=2.4)
        assert (judged.verdict, judged.exit_code) == ("UNDETERMINED", 3)
        assert judged.summary == "UNDETERMINED: not everything was seen to its end; 0 trials in 2 s"


class TestText:
    def test_it_says_the_verdict_then_each_finding_and_what_else_there_is(self) -> None:
        judged = report(
            "lost_sale", "gives_up", undetermined=("expired: it hung",), notes=["no listAttempts"]
        )
        assert str(judged) == "\n\n".join(
            [
                judged.summary,
                *map(str, judged.findings),
                "Not seen to its end:\n  - expired: it hung\n\nNotes:\n  - no listAttempts",
            ]
        )
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
            f"  Repeat: only='{TOKEN}'",
        ]

    @pytest.mark.parametrize(
        "script", ["cd shop\nexec 'node' shop.mjs", "```\n", "a\tb \x1b[1m \\ ' \u202e é"]
    )
    def test_the_command_is_shown_once_and_can_be_pasted(self, script: str) -> None:
        command, option = f"paymock verify --run {shell_word(script)}", f"--only {TOKEN}"
        judged = report(finding(command=f"{command} {option}"), finding(command="x"), command=command)
        text, xml = str(judged), ET.fromstring(junit(judged))  # noqa: S314 - our own
        assert text.endswith(f"\n\nTo repeat a finding, add its --only to:\n\n{command}")
        assert (text.count(command), text.count(f"  Repeat: {option}\n")) == (1, 2)
        assert (xml.findtext("system-out") or "").endswith(f"\n\n{command}")
        [block] = re.findall(r"\n(`{3,})sh\n(.*)\n\1\n$", markdown(judged), re.DOTALL)
        assert block[1] == command
        assert "\n```" not in block[1] or len(block[0]) == 4
        assert all(line.isprintable() for line in text.split("\n"))
        if "\t" not in script:  # which takes bash
            assert shlex.split(command)[-1] == script

    @pytest.mark.process
    @pytest.mark.parametrize("word", ["a\nb 'c' $HOME `d` \\", "\ta\nb ' \\ \x01\x1b[1m \x85\u202e é"])
    def test_a_shell_reads_the_word_that_was_meant(self, word: str) -> None:
        printed = subprocess.check_output(
            ["/bin/bash", "-c", f"printf %s {shell_word(word)}"], env={"LC_ALL": "C.UTF-8"}
        )
        assert printed.decode() == word

    def test_long_lines_are_broken(self) -> None:
        _, *story = str(finding(story=["Wrong:       " + "word " * 60])).split("\n\n")[0].splitlines()
        assert all(len(line) <= 100 for line in story)
        assert [line.index("word") for line in story] == [15] * 4

    def test_control_characters_are_escaped(self) -> None:
        evil = finding(story=[EVIL], requests=[request(operation=None, path=EVIL)])
        text = str(report(evil, undetermined=(EVIL,), notes=[EVIL]))
        assert text.replace("\n", "").isprintable()
        assert text.count(ESCAPED) == 4


class TestJson:
    def test_it_has_the_names_of_the_attributes(self) -> None:
        more: dict[str, Any] = {"notes": ["y"], "scenarios": ["happy_path"], "seconds": 1.5}
        judged = report("lost_sale", "gives_up", undetermined=("x",), **more)
        document = json.loads(json.dumps(judged.as_json()))
        assert [*document] == [
            "verdict", "findings", "trials", "undetermined", "scenarios", "notes", "seconds", "command",
        ]  # fmt: skip
        assert document["findings"][0].keys() == {
            "rule", "severity", "scenario", "faults", "token", "explanation", "story", "requests", "timeline",
            "order_id", "payment_id", "occurrences", "command",
        }  # fmt: skip
        findings = document.pop("findings")
        for shown, found in ((document, judged), *zip(findings, judged.findings, strict=True)):
            assert shown == {name: getattr(found, name) for name in shown}
        assert [shown["severity"] for shown in findings] == ["money", "advice"]


class TestTranscript:
    def test_a_change_without_requests_is_drawn_and_a_future_one_is_not(self) -> None:
        assert transcript(TIMELINE[1:], []) == ["   5 s  payment_detected", "1234.567 s  completed"]

    def test_what_showed_no_state_stands_with_the_request_before_it(self) -> None:
        lost, other = request(None, fault="status=500"), request(None, None, path="/v2", status=404)
        requests = [lost, creation(), request(5.0), lost, lost, other, request(5.0)]
        first, second = transcript(TIMELINE[:2], requests)
        assert first.endswith("  getPayment ✗ status=500, createPayment 201 new")
        assert second.endswith(
            "  getPayment 200, getPayment ✗ status=500 (2 times), GET /v2 404, getPayment 200"
        )

    def test_without_a_payment_the_requests_are_all_there_is(self) -> None:
        refused = creation(at=None, status=500, fault="status=500", idempotency=None)
        assert transcript([], [refused, refused]) == ["   0 s    createPayment ✗ status=500 (2 times)"]
        assert transcript([], []) == ["   0 s"]


class TestJUnit:
    def suite(self, judged: Report) -> ET.Element:
        document = junit(judged)
        assert document.startswith(b"<?xml version='1.0' encoding='utf-8'?>")
        return ET.fromstring(document)  # noqa: S314 - our own

    def test_there_is_a_test_for_each_rule_and_one_for_the_end(self) -> None:
        suite = self.suite(report(seconds=1.2345))
        assert suite.get("tests") == str(len(RULES) + 1)
        assert (suite.get("failures"), suite.get("errors"), suite.get("time")) == ("0", "0", "1.234")
        assert [case.get("name") for case in suite] == [*RULES, "seen_to_its_end"]
        assert [len(case) for case in suite] == [0] * (len(RULES) + 1)

    def test_money_fails_and_advice_does_not(self) -> None:
        lost, advice = finding("lost_sale", story=[EVIL]), finding("gives_up")
        suite = self.suite(report(lost, advice, finding("lost_sale", scenario="expired")))
        assert (suite.get("failures"), suite.get("errors")) == ("2", "0")
        first, _ = suite.iterfind("testcase[@name='lost_sale']/failure")
        assert first.attrib == {"type": "lost_sale", "message": "<lost_sale> & more"}
        assert first.text == str(lost)
        [output] = suite.iterfind("testcase[@name='gives_up']/system-out")
        assert output.text == str(advice)

    def test_what_was_not_seen_is_an_error(self) -> None:
        suite = self.suite(report(undetermined=("expired: it hung", EVIL)))
        assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
        [error] = suite.iterfind("testcase[@name='seen_to_its_end']/error")
        assert error.get("message") == "2 not seen to the end"
        assert error.text == f"expired: it hung\n{ESCAPED}"


class TestMarkdown:
    def test_a_table_shows_all_findings_and_details_follow(self) -> None:
        text = markdown(report(finding(occurrences=3), finding("gives_up", faults=[])))
        assert text.startswith(
            "## paymock verify: UNSAFE\n\nlost_sale; 12 trials in 0 s.\n\n"
            "| Rule | Severity | Scenario | Faults | Trials |\n"
            "| --- | --- | --- | --- | ---: |\n"
            "| `lost_sale` | money | happy_path | getPayment@5: drop | 3 |\n"
            "| `gives_up` | advice | happy_path | none | 1 |\n\n"
            "### `lost_sale`\n\n- Order:       verify-1, scenario happy_path.\n- Wrong:       The goods "
            "did not go out.\n\n<details>"
        )
        assert text.endswith(f"\n\nRepeat: `only='{TOKEN}'`\n")

    def test_what_was_not_seen_is_listed(self) -> None:
        text = markdown(report(undetermined=("expired: it hung", "a | b\nc")))
        assert text == (
            "## paymock verify: UNDETERMINED\n\nnot everything was seen to its end; 12 trials in 0 s.\n\n"
            "### Not seen to its end\n\n- expired: it hung\n- a \\| b\\nc\n"
        )

    def test_output_of_an_application_does_not_damage_it(self) -> None:
        evil = finding(story=[EVIL], faults=[EVIL, "a|b\r\n"], requests=[request(None, None, path=EVIL)])
        text = markdown(report(evil, undetermined=(EVIL, "<img src=x> & `x` [a](b) \\[c](d)")))
        assert text.replace("\n", "").isprintable()
        escaped = ESCAPED.replace("[", r"\[")
        assert (text.count(escaped), text.count(ESCAPED)) == (3, 1)  # as it is among the requests
        assert f"| {escaped}; a\\|b\\r\\n | 1 |" in text
        assert text.endswith(r"- &lt;img src=x&gt; &amp; \`x\` \[a\](b) \\\[c\](d)" + "\n")
