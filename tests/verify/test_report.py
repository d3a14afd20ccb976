import json
import re
import shlex
import subprocess
from textwrap import wrap
from typing import Any
from xml.etree import ElementTree as ET

import pytest

from paymock.text import shell_word
from paymock.verify.checks import CHECKS, Severity
from paymock.verify.report import (
    Certainty,
    Coverage,
    Finding,
    Report,
    Verdict,
    grouped,
    html,
    junit,
    markdown,
    steps,
    transcript,
)

MONEY = [rule.name for rule in CHECKS.values() if rule.severity is Severity.MONEY]
ADVICE = [rule.name for rule in CHECKS.values() if rule.severity is Severity.ADVICE]
TOKEN = "happy_path/getPayment@5=drop"

BUG = "lost_sale when getPayment gets `drop`: it reads no more"
COVERAGE = Coverage(8, 8, 19, ["outage", "3 at once"], ["crash (--crash)"])

EVIL = "\x1b[31mred\x1b[0m\x00 \u202e"
ESCAPED = "\\x1b[31mred\\x1b[0m\\x00 \\u202e"

TIMELINE = [
    {"offset_seconds": at, "event": event, "reached": at < 4000}
    for at, event in (
        (0.0, "created: awaiting_payment"),
        (5.0, "payment_detected"),
        (1234.567, "completed"),
        (4000.0, "failed"),
    )
]


def request(at: float | None = 0.0, operation: str | None = "getPayment", **changes: Any) -> dict[str, Any]:
    plain = {"method": "GET", "path": "/v1/x", "status": 200, "fault": None, "idempotency": None}
    return {**plain, "operation": operation, "shown_offset_seconds": at, "payment_id": None, **changes}


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
        "cause": "when getPayment gets `drop`: it reads no more",
    }
    return Finding(**{**fields, **changes})


def report(
    *rules: str | Finding, undetermined: tuple[str, ...] = (), trials: int = 12, **more: Any
) -> Report:
    findings = [rule if isinstance(rule, Finding) else finding(rule) for rule in rules]
    return Report(findings, trials, [*undetermined], coverage=COVERAGE, **{"seconds": 2.4, **more})


SLOW = "this machine is too slow to judge (replies of 400 ms): run fewer things beside it"


class TestVerdict:
    @pytest.mark.parametrize("undetermined", [(), ("expired: it hung",)])
    @pytest.mark.parametrize("rule", MONEY)
    def test_a_rule_about_money_is_unsafe(self, rule: str, undetermined: tuple[str, ...]) -> None:
        judged = report(*ADVICE, rule, rule, undetermined=undetermined, trials=1)
        assert (judged.verdict, judged.exit_code) == ("UNSAFE", 1)

    @pytest.mark.parametrize("rules", [[], ADVICE])
    def test_advice_changes_no_verdict(self, rules: list[str]) -> None:
        judged = report(*rules)
        assert (judged.verdict, judged.exit_code) == (Verdict.SAFE, 0)
        judged = report(*rules, undetermined=("expired: it hung",))
        assert (judged.verdict, judged.exit_code) == ("UNDETERMINED", 3)

    @pytest.mark.parametrize(
        ("judged", "line"),
        [
            (report(), "SAFE in {}, 12 trials: no rule about money was broken"),
            (report(planned=15), "SAFE in {}, 12 of 15 trials: no rule about money was broken"),
            (report(partial=True), "SAFE in {}, 19 faults, 12 trials: no rule about money was broken"),
            (
                report("gives_up", finding(occurrences=9, tried=9), trials=1),
                f"UNSAFE: {BUG} (9 of 9); {{}}, 1 trial",
            ),
            (
                report(patience="patience seen: 60 s, 9 reads", slow_seconds=0.4),
                "SAFE in {}, 12 trials, patience seen: 60 s, 9 reads: no rule about money was broken; "
                + SLOW,
            ),
            (
                report(finding(certainty=Certainty.SUSPECTED), undetermined=("x",)),
                f"UNDETERMINED: {BUG}, not confirmed; {{}}, 12 trials",
            ),
            (report("lost_sale", "free_goods"), f"UNSAFE: {BUG} (1 trial); also free_goods; {{}}, 12 trials"),
            (report(trials=0), "UNDETERMINED: not everything was seen to its end; {}, 0 trials"),
        ],
    )
    def test_the_first_line_tells_the_bug(self, judged: Report, line: str) -> None:
        line = line.format("8 of 8 scenarios") + "; 2 s"
        assert judged.summary == str(judged).splitlines()[0] == line
        assert markdown(judged).decode().startswith(f"## {line}\n\n| Rule ")

    def test_each_rule_has_a_verdict(self) -> None:
        judged = report(finding(also=["gives_up"]), not_judged=["double_delivery"])
        told = dict.fromkeys(CHECKS, "passed") | {"double_delivery": "not judged"}
        assert judged.rules == told | {"lost_sale": "broken", "gives_up": "broken"}
        assert report(undetermined=("x",)).rules == dict.fromkeys(CHECKS, "undetermined")


class TestText:
    def test_it_says_what_to_fix_first_then_each_finding_and_what_else_there_is(self) -> None:
        judged = report(
            "gives_up", "lost_sale", undetermined=("expired: it hung",), notes=["no listAttempts"]
        )
        advice, money = judged.findings
        first, rules, *parts = str(judged).split("\n\n")
        assert first == judged.summary
        assert rules.splitlines()[0] == "  broken       lost_sale, gives_up"
        coverage = "8 of 8 scenarios, 19 faults, outage, 3 at once; not tried: crash (--crash)"
        assert rules.endswith(f"\n{coverage}")
        assert "\n\n".join(parts) == "\n\n".join(
            [
                f"Fix first:\n  - {BUG}\n\nAdvice:\n  - {advice.title}",
                *map(str, (money, advice)),
                "Not seen to its end:\n  - expired: it hung\n\nNotes:\n  - no listAttempts",
                f"To repeat the first finding:\n\nonly='{TOKEN}'",
            ]
        )
        assert str(report()).endswith(coverage)
        assert [name for name, _ in advice.parts] == ["Wrong", "Fix"]
        assert not set(advice.course) & {line.strip() for line in str(advice).splitlines()}

    def test_a_finding_is_a_story_and_its_evidence(self) -> None:
        story = [*finding().story, "Application: 1 payment.", "Goods:       never."]
        output = [*map(str, range(9)), "  File x"]
        told = finding(occurrences=3, story=story, output=output, neighbors=["b", "c"])
        assert str(told).splitlines() == [
            f"{BUG} (money, 3 trials)",
            "  Order:       verify-1, scenario happy_path.",
            "  Wrong:       The goods did not go out.",
            "  Application: 1 payment.",
            "  Output:      2",
            *(f"{'':15}{number}" for number in range(3, 9)),
            f"{'':15}  File x",
            "  Goods:       never.",
            "  Others:      b",
            f"{'':15}c",
            *wrap(f"  Fix:         {finding().fix}", 100, subsequent_indent=" " * 15),
            f"  Repeat:      only='{TOKEN}'",
            "",
            "       0 s  created: awaiting_payment  createPayment 201 new, getPayment 200, getPayment ✗ drop",
            "       5 s  payment_detected           getPayment 200",
        ]
        told = finding(
            occurrences=9,
            tried=9,
            also=["gives_up"],
            certainty=Certainty.SUSPECTED,
            cause="",
        )
        assert told.notes == "(money, 9 of 9, not confirmed; also: gives_up)"

    def test_each_payment_is_drawn_with_its_scenario_and_sums(self) -> None:
        sums = {"due": 1_000_001, "asset": "USDT"}
        first = {
            "payment_id": "pay_1",
            "scenario": "no_payment_expired",
            "timeline": TIMELINE[:1],
            "received": 0,
        }
        second = {
            "payment_id": "pay_2",
            "scenario": "happy_path",
            "timeline": TIMELINE[:2],
            "received": 10**24,
        }
        about_first = [creation(payment_id="pay_1", at=None, fault="drop"), request(None, "listChains")]
        about_second = [creation(payment_id="pay_2"), request(5.0, payment_id="pay_2")]
        told = finding(
            requests=[*about_first, *about_second],
            payments=[first | sums, second | sums],
            marks={2: "kill -9, started again"},
        )
        assert told.course == [
            "payment 1: no_payment_expired; due 1000001, received 0 raw units of USDT",
            "   0 s  created: awaiting_payment  createPayment ✗ drop, listChains 200",
            f"payment 2: happy_path; due 1000001, received {10**24} raw units of USDT",
            "   0 s  created: awaiting_payment  createPayment 201 new, kill -9, started again",
            "   5 s  payment_detected           getPayment 200",
        ]

    def test_lines_of_one_reason_are_one(self) -> None:
        asked = [f"token/{number}: CallFailed: GET /verify-0123abcd-{number}: 404" for number in range(5)]
        assert [*grouped(["interrupted", *asked, "expired: it hung", "expired: it hung"])] == [
            "interrupted",
            "CallFailed: GET /verify-0123abcd-0: 404 (5 times: token/0, token/1, token/2 and 2 more)",
            "it hung (2 times: expired)",
        ]

    @pytest.mark.parametrize(
        "script", ["cd shop\nexec 'node' shop.mjs", "```\n", "a\tb \x1b[1m \\ ' \u202e é"]
    )
    def test_the_command_is_a_block_that_can_be_pasted(self, script: str) -> None:
        command = f"paymock verify --run {shell_word(script)} --only {TOKEN}"
        judged = report(finding(command=command), finding("gives_up", command="x"))
        text, xml = str(judged), ET.fromstring(junit(judged))  # noqa: S314 - our own
        assert text.endswith(f"\n\n{command}")
        assert f"\n  Repeat:      --only {TOKEN}\n" in text
        assert text.index("paymock verify") == text.index(command)
        assert (xml.findtext(".//failure") or "").endswith(f"\n\n{command}")
        [block] = re.findall(r"\n(`{3,})sh\n(.*?)\n\1\n", markdown(judged).decode(), re.DOTALL)
        assert block[1] == command
        assert "\n```" not in block[1] or len(block[0]) == 4
        assert all(line.isprintable() for line in text.split("\n"))
        if "\t" not in script:  # which takes bash
            assert shlex.split(command)[3] == script

    @pytest.mark.process
    @pytest.mark.parametrize("word", ["a\nb 'c' $HOME `d` \\", "\ta\nb ' \\ \x01\x1b[1m \x85\u202e é"])
    def test_a_shell_reads_the_word_that_was_meant(self, word: str) -> None:
        printed = subprocess.check_output(
            ["/bin/bash", "-c", f"printf %s {shell_word(word)}"], env={"LC_ALL": "C.UTF-8"}
        )
        assert printed.decode() == word

    def test_control_characters_are_escaped(self) -> None:
        evil = finding(story=[EVIL], cause=EVIL, requests=[request(operation=None, path=EVIL)])
        text = str(report(evil, undetermined=(EVIL,), notes=[EVIL]))
        assert text.replace("\n", "").isprintable()
        assert text.count(ESCAPED) == 6


class TestJson:
    def test_it_has_the_names_of_the_attributes(self) -> None:
        reasons = ("a: x", "b: x")
        more: dict[str, Any] = {"notes": ["y"], "scenarios": ["happy_path"], "seconds": 1.5}
        judged = report("lost_sale", "gives_up", undetermined=reasons, **more)
        document = json.loads(json.dumps(judged.as_json()))
        assert [*document] == [
            "verdict", "partial", "rules", "findings", "trials", "undetermined", "scenarios", "notes",
            "seconds", "command", "coverage", "not_judged", "planned", "patience",
        ]  # fmt: skip
        assert document["undetermined"] == ["x (2 times: a, b)"]
        findings, coverage = document["findings"], document["coverage"]
        assert findings[0].keys() == {
            "rule", "severity", "scenario", "faults", "token", "explanation", "story", "requests", "order_id",
            "payment_id", "occurrences", "command", "cause", "tried", "also", "payments", "certainty",
            "repeated", "fix", "output", "neighbors",
        }  # fmt: skip
        for values, found in zip([coverage, *findings], [COVERAGE, *judged.findings], strict=True):
            assert values == {name: getattr(found, name, values[name]) for name in values} | values
        assert [values["severity"] for values in findings] == ["money", "advice"]

    def test_equal_successive_requests_are_one(self) -> None:
        told = finding(marks={-1: "kill -9", 2: "started again"}).as_json()
        plain = {"operation": "getPayment", "status": 200, "fault": None}
        assert told["requests"] == [
            {"event": "kill -9"},
            {**plain, "operation": "createPayment", "status": 201, "idempotency": "new"},
            plain,
            {**plain, "fault": "drop"},
            {"event": "started again"},
            plain,
        ]

    def test_a_long_journal_takes_at_most_6_kb(self) -> None:
        sums = {"scenario": "happy_path", "due": 10**20, "received": 0, "asset": "USDT"}
        states = [{"status": f"state_{entry['offset_seconds']}", **entry} for entry in TIMELINE]
        payments = [{"payment_id": "x" * 44 + str(number), "timeline": states, **sums} for number in range(3)]
        read, other = (request(shown="payment_detected", payment_id="x" * 44 + number) for number in "12")
        lines = ["y" * 1_000] * 50
        more: dict[str, Any] = {"requests": [read, other] * 1_000, "output": lines, "neighbors": lines}
        told = finding(story=["Application: 1", "Goods: none"], payments=payments, **more).as_json()
        assert len(json.dumps(told)) <= 6_000
        assert [told["requests"][4], len(told["requests"])] == [{"omitted": 1_984}, 17]
        assert told["payments"][0]["timeline"]["state_5.0"] == "5"


class TestTranscript:
    def test_a_change_without_requests_is_drawn_and_a_future_one_is_not(self) -> None:
        assert transcript(steps(TIMELINE[1:], [])) == ["   5 s  payment_detected", "1234.567 s  completed"]

    def test_what_showed_no_state_stands_with_the_request_before_it(self) -> None:
        lost, other = request(None, fault="status=500"), request(None, None, path="/v2", status=404)
        requests = [lost, creation(), request(5.0), lost, lost, other, request(5.0)]
        first, second = transcript(steps(TIMELINE[:2], requests))
        assert first.endswith("  getPayment ✗ status=500, createPayment 201 new")
        assert second.endswith(
            "  getPayment 200, getPayment ✗ status=500 (2 times), GET /v2 404, getPayment 200"
        )

    def test_without_a_payment_the_requests_are_all_there_is(self) -> None:
        refused = creation(at=None, status=500, fault="status=500", idempotency=None)
        assert transcript(steps([], [refused, refused])) == ["   0 s    createPayment ✗ status=500 (2 times)"]
        assert transcript(steps([], [])) == ["   0 s"]

    def test_many_changes_without_requests_are_folded(self) -> None:
        states = [{"offset_seconds": at, "event": f"{at}", "reached": True} for at in range(9)]
        assert transcript(steps(states, [request(0)]))[1:] == ["   1 s  1", "   …    6 more", "   8 s  8"]
        assert len(transcript(steps(states[:5], []))) == 3
        assert len(transcript(steps(states[:4], []))) == 4


class TestJUnit:
    def suite(self, judged: Report) -> ET.Element:
        document = junit(judged)
        assert document.startswith(b"<?xml version='1.0' encoding='utf-8'?>")
        return ET.fromstring(document)  # noqa: S314 - our own

    def test_there_is_a_test_for_each_rule_and_one_for_the_end(self) -> None:
        suite = self.suite(report(seconds=1.2345))
        assert suite.get("tests") == str(len(CHECKS) + 1)
        assert (suite.get("failures"), suite.get("errors"), suite.get("time")) == ("0", "0", "1.234")
        *cases, output = suite
        assert [case.get("name") for case in cases] == [*CHECKS, "seen_to_its_end"]
        assert [len(case) for case in cases] == [0] * (len(CHECKS) + 1)
        assert output.text == f"{report(seconds=1.2345).summary}\n{COVERAGE}"

    def test_money_fails_and_advice_does_not(self) -> None:
        lost, advice = finding("lost_sale", story=[EVIL]), finding("gives_up", also=["key_conflict"])
        suite = self.suite(report(lost, advice, finding("lost_sale", also=["double_payment"])))
        assert (suite.get("failures"), suite.get("errors")) == ("2", "0")
        assert len(suite.findall("testcase/system-out")) == 2
        assert suite.find("testcase[@name='double_payment']/failure") is not None
        first, _ = suite.iterfind("testcase[@name='lost_sale']/failure")
        assert first.attrib == {"type": "lost_sale", "message": "<lost_sale> & more"}
        assert first.text == f"{lost}\n\nTo repeat it:\n\nonly='{TOKEN}'"
        [output] = suite.iterfind("testcase[@name='gives_up']/system-out")
        assert (output.text or "").startswith(str(advice))

    def test_what_was_not_seen_is_an_error_and_what_was_not_judged_is_skipped(self) -> None:
        suite = self.suite(report(finding(), undetermined=("expired: it hung", EVIL)))
        skipped = {case.get("name") for case in suite.iterfind("testcase[skipped]")}
        assert (skipped, suite.get("skipped")) == ({*CHECKS} - {"lost_sale"}, str(len(CHECKS) - 1))
        [error] = suite.iterfind("testcase/error")
        assert (error.get("message"), error.text) == ("2 not seen to the end", f"expired: it hung\n{ESCAPED}")


class TestMarkdown:
    def test_a_table_shows_all_rules_and_details_follow(self) -> None:
        text = markdown(report(finding(occurrences=3))).decode()
        table = "| Rule | Severity | Verdict |\n| --- | --- | --- |\n| `free_goods` | money | passed |\n"
        head = f"### {BUG} (money, 3 trials)".replace("lost_sale", "`lost_sale`")
        story = "- Order: verify-1, scenario happy_path.\n- Wrong: The goods did not go out.\n- Fix: "
        assert table in text
        assert f"{head}\n\n{story}" in text
        assert text.endswith(f"\n\n```sh\nonly='{TOKEN}'\n```\n")

    def test_output_of_an_application_does_not_damage_it(self) -> None:
        evil = finding(story=[EVIL], cause=f"{EVIL} a|b\r\n.", requests=[request(None, None, path=EVIL)])
        text = markdown(report(evil, undetermined=(EVIL, "<img src=x> & `x` [a](b) \\[c](d)"))).decode()
        assert text.replace("\n", "").isprintable()
        escaped = ESCAPED.replace("[", r"\[")
        assert (text.count(escaped), text.count(ESCAPED)) == (5, 1)  # as it is among the requests
        assert f"{escaped} a|b\\r\\n. (money, 1 trial)\n" in text
        assert "\n\n### Not seen to its end\n\n- " in text
        assert r"- &lt;img src=x&gt; &amp; `x` \[a\](b) \\\[c\](d)" + "\n" in text

    @pytest.mark.parametrize(
        ("text", "escaped"),
        [
            ("`a_b|*<c>` lost_sale _x_ *", r"`a_b|*<c>` lost_sale \_x\_ \*"),
            ("a ``b` c` \\d \\`e`", r"a \`\`b` c` \d \\`e`"),
            ("# no heading", r"\# no heading"),
        ],
    )
    def test_code_stays_code_and_only_markup_is_escaped(self, text: str, escaped: str) -> None:
        assert f"\n- {escaped}\n" in markdown(report(undetermined=(text,))).decode()


class TestHtml:
    def test_it_shows_the_course_and_needs_nothing_else(self) -> None:
        states = [{"status": f"state_{number}", **entry} for number, entry in enumerate(TIMELINE)]
        story = [f"Goods:       went out once, first at `state_1`. <b>{EVIL}", "Application: x"]
        told: dict[str, Any] = {"story": story, "timeline": states, "output": ["<i>"], "goods_at": "state_1"}
        money = finding(**told, command="paymock verify --run 'a\nb'")
        text = html(report(money, "gives_up", undetermined=("a: x", "b: x"))).decode()
        assert [text.count(word) for word in ("✗", "goods went out", "<b>\\x1b", "<script", "src=")] == [
            1, 1, 0, 0, 0,
        ]  # fmt: skip
        assert f"&lt;b&gt;{ESCAPED}" in text
        assert "<pre>paymock verify --run &#39;a\nb&#39;</pre>" in text
        assert "<li>x (2 times: a, b)</li>" in text
        assert text.replace("\n", "").isprintable()
