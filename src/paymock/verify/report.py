"""The report: the verdict, and each finding as a story. Text, JSON, JUnit, Markdown."""

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from itertools import groupby
from textwrap import wrap
from xml.etree import ElementTree as ET

from paymock.client.http import Json
from paymock.text import escape_control, format_seconds, shell_word
from paymock.verify.oracle import RULES, Severity

_REPEAT = "To repeat the first finding:"
_OTHERS = "The others, by the same command with:"

_WIDTH = 100
_NAMED = 3
"""How many of the trials that ended for the same reason are named."""

_ORDER_ID = re.compile(r"verify-[0-9a-f]{8}-[0-9]+")
_MARKUP = re.compile(r"[\\`|*#~\[\]]")


class Verdict(StrEnum):
    """Whether an application handles money safely, as far as it was seen."""

    SAFE = "SAFE"
    UNSAFE = "UNSAFE"
    UNDETERMINED = "UNDETERMINED"


_BATCH_FIXES = {
    "=crash": "Write an order down before anything is sent. Deliver and record it in one transaction, or "
    "give the warehouse the order id as its key.",
    "order=": "Put a unique key on the order id: insert the order first, and use the one that is there.",
    "=meet": "Let the database decide which replica delivers, by a unique key or a lease.",
}
"""How to fix what a batch has shown, by a part of its token."""

_EXIT_CODES = {Verdict.SAFE: 0, Verdict.UNSAFE: 1, Verdict.UNDETERMINED: 3}


@dataclass(frozen=True)
class Finding:
    """A rule that was broken, with the smallest plan that breaks it.

    `cause` tells it in a line; `also` are other rules that the same cause breaks. `faults` are the requests
    that got a fault, and which; `token` repeats the trial. `requests` are those of the order, oldest first,
    as in the journal. `payments` are those of the order, oldest first, each with its `payment_id`,
    `scenario` and `timeline`, and with the sums `due` and `received` in raw units of its `asset`; `timeline`
    and `payment_id` are of the newest. `occurrences` of `tried` trials with this cause broke the rule; 0: it
    is not known of how many. `repeated`: it was seen once more. `marks` are other events, each by the index
    of the request after which it came.
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
    cause: str = ""
    tried: int = 0
    also: list[str] = field(default_factory=list)
    payments: list[Json] = field(default_factory=list)
    repeated: bool = True
    marks: dict[int, str] = field(default_factory=dict)

    @property
    def fix(self) -> str:
        """How to fix it, and where to read more."""
        for part, fix in _BATCH_FIXES.items():
            if part in self.token and self.severity is Severity.MONEY:
                return f"{fix} See docs/crash-safety.md."
        return f"{RULES[self.rule].fix} See docs/verify.md#{self.rule}."

    @property
    def severity(self) -> Severity:
        return RULES[self.rule].severity

    @property
    def count(self) -> str:
        if self.tried:
            return f"{self.occurrences} of {self.tried}"
        return f"{self.occurrences} trial{'s' if self.occurrences != 1 else ''}"

    @property
    def title(self) -> str:
        return f"{self.rule} {self.cause}".rstrip()

    @property
    def option(self) -> str:
        """What repeats the trial: an option of the command, or else an argument in Python."""
        return f"--only {shell_word(self.token)}" if self.command else f"only={self.token!r}"

    @property
    def head(self) -> str:
        again = "" if self.repeated else ", not repeated"
        also = f"; also: {', '.join(self.also)}" if self.also else ""
        return f"{self.title} ({self.severity}, {self.count}{again}{also})"

    @property
    def advised_story(self) -> list[str]:
        return [*self.story, f"Fix:         {self.fix}"]

    @property
    def course(self) -> list[str]:
        """Each payment of the order as lines: its scenario and sums, and its timeline with the requests. A
        request about no payment stands with the one before it.
        """
        if not self.payments:
            return transcript(self.timeline, self.requests, self.marks)
        indexes: dict[str, list[int]] = {payment["payment_id"]: [] for payment in self.payments}
        current = self.payments[0]["payment_id"]
        for index, request in enumerate(self.requests):
            current = request["payment_id"] if request["payment_id"] in indexes else current
            indexes[current].append(index)
        lines = []
        for number, payment in enumerate(self.payments, 1):
            own = indexes[payment["payment_id"]]
            places = {index: place for place, index in enumerate(own)} | ({-1: -1} if number == 1 else {})
            marks = {places[index]: text for index, text in self.marks.items() if index in places}
            sums = f"due {payment['due']}, received {payment['received']} raw units of {payment['asset']}"
            lines.append(f"payment {number}: {payment['scenario']}; {sums}")
            lines += transcript(payment["timeline"], [self.requests[index] for index in own], marks)
        return lines

    def __str__(self) -> str:
        lines = [self.head]
        for line in self.advised_story:
            lines += wrap(line, _WIDTH, initial_indent="  ", subsequent_indent=" " * 15)
        lines += ["", *(f"    {line}" for line in self.course)]
        return "\n".join(escape_control(line) for line in lines)


@dataclass(frozen=True)
class Coverage:
    """What was tried: so many `scenarios` of those that there are, and `faults` in them; `batches` of orders
    that are hit all at once ("outage", "3 at once"). `not_tried`: what was left out, and how to try it.
    """

    scenarios: int = 0
    of_scenarios: int = 0
    faults: int = 0
    batches: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)

    @property
    def scope(self) -> str:
        faults = f"{self.faults} fault{'s' if self.faults != 1 else ''}"
        return f"{self.scenarios} of {self.of_scenarios} scenarios, {faults}"

    def __str__(self) -> str:
        left_out = f"; not tried: {', '.join(self.not_tried)}" if self.not_tried else ""
        return ", ".join([self.scope, *self.batches]) + left_out


@dataclass(frozen=True)
class Report:
    """What the judge has found. `trials` is how many have ended; `undetermined` says what was not seen to its
    end, and why; `not_judged` are rules of which nothing can be said. `partial`: it was a part of the
    campaign that was run. `notes` are remarks that change nothing. `command` is the command line, which may
    have line breaks, that with the `--only` of a finding repeats its trial; empty in Python.
    """

    findings: list[Finding]
    trials: int
    undetermined: list[str]
    scenarios: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    seconds: float = 0.0
    command: str = ""
    coverage: Coverage = field(default_factory=Coverage)
    partial: bool = False
    not_judged: list[str] = field(default_factory=list)

    @property
    def rules(self) -> dict[str, str]:
        """Each rule, in their order: broken, not judged, undetermined or passed."""
        verdicts = dict.fromkeys(RULES, "undetermined" if self.undetermined or not self.trials else "passed")
        verdicts |= dict.fromkeys(self.not_judged, "not judged")
        for finding in self.findings:
            verdicts |= dict.fromkeys((finding.rule, *finding.also), "broken")
        return verdicts

    @property
    def verdict(self) -> Verdict:
        """UNSAFE if a rule about money was broken; else UNDETERMINED if anything was not seen to its end."""
        if any(finding.severity is Severity.MONEY for finding in self.findings):
            return Verdict.UNSAFE
        return Verdict.UNDETERMINED if self.undetermined or not self.trials else Verdict.SAFE

    @property
    def exit_code(self) -> int:
        return _EXIT_CODES[self.verdict]

    @property
    def summary(self) -> str:
        """The verdict and its reason, in one line."""
        verdict, reason = str(self.verdict), "not everything was seen to its end"
        if self.verdict is Verdict.SAFE:
            verdict += f" in {self.coverage.scope}" if self.partial else ""
            reason = "no rule about money was broken"
        if self.verdict is Verdict.UNSAFE:
            first = next(finding for finding in self.findings if finding.severity is Severity.MONEY)
            broken = [rule for rule, told in self.rules.items() if told == "broken"]
            others = [
                rule for rule in broken if RULES[rule].severity is Severity.MONEY and rule != first.rule
            ]
            reason = f"{first.title} ({first.count})" + (f"; also {', '.join(others)}" if others else "")
        trials = f"{self.trials} trial{'s' if self.trials != 1 else ''}"
        return escape_control(f"{verdict}: {reason}; {trials} in {self.seconds:.0f} s")

    def as_json(self) -> Json:
        added = ("severity", "fix")
        findings = [asdict(one) | {name: getattr(one, name) for name in added} for one in self.findings]
        first = {"verdict": str(self.verdict), "partial": self.partial, "rules": self.rules}
        return {**first, **asdict(self), "findings": findings}

    def __str__(self) -> str:
        width = max(map(len, RULES))
        verdicts = [f"  {rule:<{width}}  {verdict}" for rule, verdict in self.rules.items()]
        parts = [self.summary, "\n".join([*verdicts, escape_control(str(self.coverage))])]
        parts += [str(finding) for finding in self.findings]
        for title, lines in (("Not seen to its end:", self.undetermined), ("Notes:", self.notes)):
            if lines:
                parts.append("\n  - ".join([title, *map(escape_control, grouped(lines))]))
        for first in self.findings[:1]:
            parts += [_REPEAT, first.command or first.option]
        if self.other_options:
            parts.append("\n  ".join([_OTHERS, *self.other_options]))
        return "\n\n".join(parts)

    @property
    def other_options(self) -> list[str]:
        """What repeats the findings after the first one."""
        return [f"{finding.option}  # {finding.rule}" for finding in self.findings[1:]]


def grouped(lines: Iterable[str]) -> Iterator[str]:
    """Lines like `TOKEN: REASON`, those of the same reason as one, which counts and names their tokens."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        reason = line.partition(": ")[2] or line
        groups.setdefault(_ORDER_ID.sub("", reason), []).append(line)
    for same in groups.values():
        names = dict.fromkeys(line.partition(": ")[0] for line in same)
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        named = f"{', '.join([*names][:_NAMED])}{more}"
        yield same[0] if len(same) == 1 else f"{same[0].partition(': ')[2]} ({len(same)} times: {named})"


def transcript(
    timeline: Sequence[Json], requests: Sequence[Json], marks: Mapping[int, str] | None = None
) -> list[str]:
    """The timeline of a payment, as lines: at each change the requests of the application until the next.
    `marks` are other events, each by the index of the request after which it came; -1: before all.

    A request that got a fault shows no state: it stands where the one before it does.
    """
    states: dict[float, str] = {}
    for entry in timeline:
        if entry["reached"]:
            states[entry["offset_seconds"]] = entry["event"]
    at, marks = 0.0, marks or {}
    beside: dict[float, list[str]] = {offset: [] for offset in states or {0.0: ""}}
    if -1 in marks:
        beside.setdefault(at, []).append(marks[-1])
    for index, request in enumerate(requests):
        if request["shown_offset_seconds"] in beside:
            at = request["shown_offset_seconds"]
        beside.setdefault(at, []).extend(filter(None, (_request_text(request), marks.get(index))))
    width = max((len(text) for text in states.values()), default=0)
    lines = []
    for offset, texts in beside.items():
        head = f"{format_seconds(offset):>4} s  {states.get(offset, ''):<{width}}"
        counts = [(text, len([*group])) for text, group in groupby(texts)]
        told = [text if count == 1 else f"{text} ({count} times)" for text, count in counts]
        lines.append(f"{head}  {', '.join(told)}".rstrip())
    return lines


def _request_text(request: Json) -> str:
    operation = request["operation"] or f"{request['method']} {request['path']}"
    if request["fault"]:
        return f"{operation} ✗ {request['fault']}"
    key = request.get("key") and f"key {request['key']}"
    return " ".join(filter(None, [f"{operation} {request['status']}", request["idempotency"], key]))


def junit(report: Report) -> bytes:
    """The report as a JUnit document: a test case for each rule, and one for what was not seen to its end.

    Advice is output of a test case that passes.
    """
    suite = ET.Element("testsuite", name="paymock verify", tests=str(len(RULES) + 1))
    for name, rule in RULES.items():
        case = ET.SubElement(suite, "testcase", classname="paymock.verify", name=name)
        for finding in report.findings:
            if name in (finding.rule, *finding.also):
                is_failure = rule.severity is Severity.MONEY
                more = {"type": name, "message": finding.explanation} if is_failure else {}
                told = ET.SubElement(case, "failure" if is_failure else "system-out", more)
                told.text = f"{finding}\n\nTo repeat it:\n\n{finding.command or finding.option}"
    case = ET.SubElement(suite, "testcase", classname="paymock.verify", name="seen_to_its_end")
    if report.undetermined:
        message = f"{len(report.undetermined)} not seen to the end"
        lines = "\n".join(map(escape_control, grouped(report.undetermined)))
        ET.SubElement(case, "error", message=message).text = lines
    for name, element in (("failures", "failure"), ("errors", "error")):
        suite.set(name, str(len(suite.findall(f"testcase/{element}"))))
    suite.set("time", f"{report.seconds:.3f}")
    ET.SubElement(suite, "system-out").text = f"{report.summary}\n{escape_control(str(report.coverage))}"
    ET.indent(suite)
    document: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document


def markdown(report: Report) -> bytes:
    """The report as Markdown, for the summary of a CI job."""
    parts = [f"## {_escaped(report.summary)}"]
    rows = [f"| `{rule}` | {RULES[rule].severity} | {verdict} |" for rule, verdict in report.rules.items()]
    parts.append("\n".join(["| Rule | Severity | Verdict |", "| --- | --- | --- |", *rows]))
    parts.append(_escaped(str(report.coverage)) + ".")
    parts += [_details(finding) for finding in report.findings]
    if report.undetermined:
        lines = [f"- {_escaped(line)}" for line in grouped(report.undetermined)]
        parts.append("\n".join(["### Not seen to its end", "", *lines]))
    for first in report.findings[:1]:
        parts += [_REPEAT, _block("sh", first.command or first.option)]
    if report.other_options:
        parts += [_OTHERS, _block("text", "\n".join(report.other_options))]
    return ("\n\n".join(parts) + "\n").encode()


def _details(finding: Finding) -> str:
    requests = "\n".join(map(escape_control, finding.course))
    story = "\n".join(f"- {_escaped(line)}" for line in finding.advised_story)
    return (
        f"### {_escaped(finding.head)}\n\n{story}\n\n<details><summary>Requests</summary>\n\n"
        f"{_block('text', requests)}\n\n</details>"
    )


def _block(language: str, text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _escaped(text: str) -> str:
    return escape(escape_control(_MARKUP.sub(r"\\\g<0>", text)), quote=False)
