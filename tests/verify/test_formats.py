"""The report as JUnit and as Markdown."""

from typing import Any
from xml.etree import ElementTree as ET

import pytest

from paymock.verify.formats import junit, markdown
from paymock.verify.report import Finding, Report
from paymock.verify.rules import RULES

EVIL = "\x1b[31mred\x1b[0m\x00 \u202e"
ESCAPED = "\\x1b[31mred\\x1b[0m\\x00 \\u202e"
REQUEST = {
    "method": "GET",
    "path": EVIL,
    "operation": None,
    "status": 404,
    "fault": None,
    "idempotency": None,
    "shown_offset_seconds": None,
}


def finding(rule: str, **changes: Any) -> Finding:
    fields: dict[str, Any] = {
        "rule": rule,
        "scenario": "happy_path",
        "faults": ["getPayment@5: drop", "getPayment@7: reset"],
        "token": "happy_path/getPayment@5=drop/getPayment@7=reset",
        "explanation": f"<{rule}> & more",
        "story": ["Order:       verify-1.", "Wrong:       It is."],
        "requests": [],
        "timeline": [],
        "order_id": "verify-1",
        "payment_id": "pay_1",
    }
    return Finding(**{**fields, **changes})


def report(*findings: Finding, undetermined: tuple[str, ...] = ()) -> Report:
    return Report([*findings], 12, [*undetermined], seconds=1.2345)


class TestJUnit:
    def suite(self, judged: Report) -> ET.Element:
        document = junit(judged)
        assert document.startswith(b"<?xml version='1.0' encoding='utf-8'?>")
        return ET.fromstring(document)  # noqa: S314 - our own

    def test_there_is_a_test_for_each_rule_and_one_for_the_end(self) -> None:
        suite = self.suite(report())
        assert suite.attrib == {
            "name": "paymock verify",
            "tests": str(len(RULES) + 1),
            "failures": "0",
            "errors": "0",
            "time": "1.234",
        }
        assert [case.get("name") for case in suite] == [*RULES, "seen_to_its_end"]
        assert [len(case) for case in suite] == [0] * (len(RULES) + 1)

    def test_money_fails_and_advice_does_not(self) -> None:
        lost, advice = finding("lost_sale"), finding("gives_up")
        suite = self.suite(report(lost, advice, finding("lost_sale", scenario="expired")))
        assert (suite.get("failures"), suite.get("errors")) == ("2", "0")
        first, second = suite.iterfind("testcase[@name='lost_sale']/failure")
        assert first.attrib == {"type": "lost_sale", "message": "<lost_sale> & more"}
        assert (first.text, second.text == first.text) == (str(lost), True)
        [output] = suite.iterfind("testcase/system-out")
        assert output.text == str(advice)
        assert output in [*suite.iterfind("testcase[@name='gives_up']/")]

    def test_what_was_not_seen_is_an_error(self) -> None:
        suite = self.suite(report(undetermined=("expired: it hung", "12 trials did not begin")))
        assert (suite.get("failures"), suite.get("errors")) == ("0", "1")
        [error] = suite.iterfind("testcase[@name='seen_to_its_end']/error")
        assert error.get("message") == "2 not seen to the end"
        assert error.text == "expired: it hung\n12 trials did not begin"

    def test_output_of_an_application_does_not_damage_it(self) -> None:
        suite = self.suite(report(finding("lost_sale", story=[EVIL]), undetermined=(EVIL,)))
        [failure], [error] = suite.iter("failure"), suite.iter("error")
        assert ESCAPED in str(failure.text)
        assert error.text == ESCAPED


class TestMarkdown:
    def test_a_safe_report_is_its_verdict(self) -> None:
        assert markdown(report()) == (
            "## paymock verify: SAFE\n\nno rule about money was broken; 12 trials in 1 s.\n"
        )

    def test_a_table_shows_all_findings_and_details_follow(self) -> None:
        text = markdown(report(finding("lost_sale", occurrences=3), finding("gives_up", faults=[])))
        assert text.startswith(
            "## paymock verify: UNSAFE\n\nlost_sale; 12 trials in 1 s.\n\n"
            "| Rule | Severity | Scenario | Faults | Trials |\n"
            "| --- | --- | --- | --- | ---: |\n"
            "| `lost_sale` | money | happy_path | getPayment@5: drop; getPayment@7: reset | 3 |\n"
            "| `gives_up` | advice | happy_path | none | 1 |\n\n"
            "### `lost_sale`\n\n- Order:       verify-1.\n- Wrong:       It is.\n\n<details>"
        )
        assert text.count("\nRepeat: `happy_path/getPayment@5=drop/getPayment@7=reset`\n") == 2

    def test_the_command_repeats_it(self) -> None:
        text = markdown(report(finding("lost_sale", command="paymock verify --only x")))
        assert text.endswith("\n\nRepeat: `paymock verify --only x`\n")

    def test_what_was_not_seen_is_listed(self) -> None:
        text = markdown(report(undetermined=("expired: it hung", "a | b\nc")))
        assert text == (
            "## paymock verify: UNDETERMINED\n\nnot everything was seen to its end; 12 trials in 1 s.\n\n"
            "### Not seen to its end\n\n- expired: it hung\n- a \\| b\\nc\n"
        )

    @pytest.mark.parametrize("fault", ["a|b", "a\nb", "a\r\nb"])
    def test_a_cell_stays_a_cell(self, fault: str) -> None:
        row = markdown(report(finding("lost_sale", faults=[fault]))).splitlines()[6]
        assert row.replace("\\|", "").count("|") == 6
        assert row.endswith(" | 1 |")

    def test_output_of_an_application_does_not_damage_it(self) -> None:
        evil = finding("lost_sale", story=[EVIL], faults=[EVIL], timeline=[], requests=[REQUEST])
        text = markdown(report(evil, undetermined=(EVIL,)))
        assert text.replace("\n", "").isprintable()
        assert text.count(ESCAPED) == 4
