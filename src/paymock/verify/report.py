"""The report: the verdict, and each finding as a story with its evidence. Text, JSON, JUnit, Markdown."""

import re
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from itertools import groupby
from textwrap import wrap
from typing import Any
from xml.etree import ElementTree as ET

from paymock.client.http import Json
from paymock.client.text import escape_control, format_seconds, shell_word
from paymock.schemas.control import COURSE_LENGTH, LINE_LENGTH, MAX_LINES, MAX_TEXT
from paymock.verify.oracle import RULES, Severity

_REPEAT = "To repeat a finding, add its --only to:"

_WIDTH = 100
_MARKUP = re.compile(r"[\\`|*#~\[\]]")


class Verdict(StrEnum):
    """Whether an application handles money safely, as far as it was seen."""

    SAFE = "SAFE"
    UNSAFE = "UNSAFE"
    UNDETERMINED = "UNDETERMINED"


_EXIT_CODES = {Verdict.SAFE: 0, Verdict.UNSAFE: 1, Verdict.UNDETERMINED: 3}


@dataclass(frozen=True)
class Finding:
    """A rule that was broken, with the least that breaks it.

    `faults` are the requests that got a fault, and which; `token` repeats the trial. `requests` are those of
    the order, oldest first, as in the journal; `timeline` is that of its payment. `occurrences` is how many
    trials broke the rule in this way.
    """

    rule: str
    scenario: str
    faults: list[str]
    token: str
    explanation: str
    story: list[str]
    requests: list[Json]
    timeline: list[Json]
    order_id: str
    payment_id: str | None
    occurrences: int = 1
    command: str = ""

    @property
    def severity(self) -> Severity:
        return RULES[self.rule].severity

    def __str__(self) -> str:
        times = f", {self.occurrences} trials" if self.occurrences > 1 else ""
        lines = [f"{self.rule} ({self.severity}{times})"]
        for line in self.story:
            lines += wrap(line, _WIDTH, initial_indent="  ", subsequent_indent=" " * 15)
        lines.append("")
        lines += [f"    {line}" for line in transcript(self.timeline, self.requests)]
        lines += ["", f"  Repeat: {self.repetition}"]
        return "\n".join(escape_control(line) for line in lines)

    @property
    def repetition(self) -> str:
        """What repeats the trial: an option for the command of the report, or else an argument in Python."""
        return f"--only {shell_word(self.token)}" if self.command else f"only={self.token!r}"


@dataclass(frozen=True)
class Report:
    """What the judge has found. `trials` is how many have ended; `undetermined` says what was not seen to its
    end, and why. `notes` are remarks that change nothing. `command` is the command line, which may have line
    breaks, that with the `--only` of a finding repeats its trial; empty in Python.
    """

    findings: list[Finding]
    trials: int
    undetermined: list[str]
    scenarios: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    command: str = ""

    @property
    def verdict(self) -> Verdict:
        """UNSAFE if a finding is about money; else UNDETERMINED if anything was not seen to its end."""
        if self._broken:
            return Verdict.UNSAFE
        return Verdict.UNDETERMINED if self.undetermined or not self.trials else Verdict.SAFE

    @property
    def exit_code(self) -> int:
        """What the command exits with."""
        return _EXIT_CODES[self.verdict]

    @property
    def summary(self) -> str:
        """The verdict and its reason, in one line."""
        trials = f"{self.trials} trial{'s' if self.trials != 1 else ''} in {self.seconds:.0f} s"
        if self._broken:
            return f"{self.verdict}: {', '.join(self._broken)}; {trials}"
        if self.verdict is Verdict.SAFE:
            return f"{self.verdict}: no rule about money was broken; {trials}"
        return f"{self.verdict}: not everything was seen to its end; {trials}"

    @property
    def _broken(self) -> list[str]:
        money = [finding.rule for finding in self.findings if finding.severity is Severity.MONEY]
        return [*dict.fromkeys(money)]

    def as_json(self) -> Json:
        findings = [asdict(finding) | {"severity": finding.severity} for finding in self.findings]
        return {"verdict": str(self.verdict), **asdict(self), "findings": findings}

    def __str__(self) -> str:
        parts = [self.summary]
        parts += [str(finding) for finding in self.findings]
        for title, lines in (("Not seen to its end", self.undetermined), ("Notes", self.notes)):
            if lines:
                parts.append("\n".join([f"{title}:", *(f"  - {escape_control(line)}" for line in lines)]))
        if self.findings and self.command:
            parts.append(f"{_REPEAT}\n\n{self.command}")
        return "\n\n".join(parts)


def transcript(timeline: Sequence[Json], requests: Sequence[Json]) -> list[str]:
    """The timeline of a payment, as lines: at each change the requests of the application until the next.

    A request that got a fault shows no state: it stands where the one before it does.
    """
    states: dict[float, str] = {}
    for entry in timeline:
        if entry["reached"]:
            states[entry["offset_seconds"]] = entry["event"].replace("`", "")
    at = 0.0
    beside: dict[float, list[str]] = {offset: [] for offset in states or {0.0: ""}}
    for request in requests:
        if request["shown_offset_seconds"] in beside:
            at = request["shown_offset_seconds"]
        beside.setdefault(at, []).append(_request_text(request))
    width = max((len(text) for text in states.values()), default=0)
    lines = []
    for offset, texts in beside.items():
        head = f"{format_seconds(offset):>4} s  {states.get(offset, ''):<{width}}"
        lines.append(f"{head}  {_joined(texts)}".rstrip())
    return lines


def _request_text(request: Json) -> str:
    operation = request["operation"] or f"{request['method']} {request['path']}"
    if request["fault"]:
        return f"{operation} ✗ {request['fault']}"
    outcome = f" {request['idempotency']}" if request["idempotency"] else ""
    return f"{operation} {request['status']}{outcome}"


def _joined(texts: Sequence[str]) -> str:
    """The texts, each once in a row, with how often."""
    counts = [(text, len([*group])) for text, group in groupby(texts)]
    return ", ".join(text if count == 1 else f"{text} ({count} times)" for text, count in counts)


def for_dashboard(finding: Finding) -> Json:
    """A finding as the dashboard shows it, shortened to what that takes."""
    kept = asdict(finding)
    for name in ("requests", "timeline", "occurrences"):
        del kept[name]
    kept = {name: _shortened(value) for name, value in kept.items()}
    course = [line[:LINE_LENGTH] for line in transcript(finding.timeline, finding.requests)]
    return kept | {"severity": finding.severity, "course": course[:COURSE_LENGTH]}


def _shortened(value: Any, length: int = MAX_TEXT) -> Any:
    """A text, or a list of texts, as far as a finding on the dashboard has room."""
    if isinstance(value, str):
        return value if len(value) <= length else f"{value[: length - 3]}..."
    if not isinstance(value, list):
        return value
    more = len(value) - MAX_LINES + 1
    shown = value if more <= 1 else [*value[: MAX_LINES - 1], f"... and {more} more"]
    return [_shortened(line, LINE_LENGTH) for line in shown]


def junit(report: Report) -> bytes:
    """The report as a JUnit document: a test case for each rule, and one for what was not seen to its end.

    Advice is output of a test case that passes.
    """
    failures = sum(finding.severity is Severity.MONEY for finding in report.findings)
    suite = ET.Element(
        "testsuite",
        name="paymock verify",
        tests=str(len(RULES) + 1),
        failures=str(failures),
        errors=str(int(bool(report.undetermined))),
        time=f"{report.seconds:.3f}",
    )
    for rule in RULES.values():
        case = ET.SubElement(suite, "testcase", classname="paymock.verify", name=rule.name)
        for finding in report.findings:
            if finding.rule == rule.name and rule.severity is Severity.MONEY:
                failure = ET.SubElement(case, "failure", type=rule.name, message=finding.explanation)
                failure.text = str(finding)
            elif finding.rule == rule.name:
                ET.SubElement(case, "system-out").text = str(finding)
    case = ET.SubElement(suite, "testcase", classname="paymock.verify", name="seen_to_its_end")
    if report.undetermined:
        message = f"{len(report.undetermined)} not seen to the end"
        lines = "\n".join(map(escape_control, report.undetermined))
        ET.SubElement(case, "error", message=message).text = lines
    if report.findings and report.command:
        ET.SubElement(suite, "system-out").text = f"{_REPEAT}\n\n{report.command}"
    ET.indent(suite)
    document: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document


def markdown(report: Report) -> str:
    """The report as Markdown, for the summary of a CI job."""
    parts = [f"## paymock verify: {report.verdict}", report.summary.partition(": ")[2] + "."]
    if report.findings:
        rows = [
            f"| `{finding.rule}` | {finding.severity} | {finding.scenario} | "
            f"{_escaped('; '.join(finding.faults) or 'none')} | {finding.occurrences} |"
            for finding in report.findings
        ]
        head = ["| Rule | Severity | Scenario | Faults | Trials |", "| --- | --- | --- | --- | ---: |"]
        parts.append("\n".join([*head, *rows]))
    parts += [_details(finding) for finding in report.findings]
    if report.undetermined:
        lines = [f"- {_escaped(line)}" for line in report.undetermined]
        parts.append("\n".join(["### Not seen to its end", "", *lines]))
    if report.findings and report.command:
        parts += [_REPEAT, _block("sh", report.command)]
    return "\n\n".join(parts) + "\n"


def _details(finding: Finding) -> str:
    requests = "\n".join(map(escape_control, transcript(finding.timeline, finding.requests)))
    story = "\n".join(f"- {_escaped(line)}" for line in finding.story)
    return (
        f"### `{finding.rule}`\n\n{story}\n\n<details><summary>Requests</summary>\n\n"
        f"{_block('text', requests)}\n\n</details>\n\nRepeat: `{finding.repetition}`"
    )


def _block(language: str, text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _escaped(text: str) -> str:
    return escape(escape_control(_MARKUP.sub(r"\\\g<0>", text)), quote=False)
