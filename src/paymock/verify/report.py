"""The report: the verdict, and each finding as a story. Text, JSON, JUnit, Markdown, HTML."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from itertools import groupby
from pathlib import Path
from textwrap import wrap
from typing import NamedTuple
from xml.etree import ElementTree as ET

from paymock.client.http import Json
from paymock.text import escape_control, format_seconds, shell_word
from paymock.verify.oracle import RULES, Severity

_REPEAT = "To repeat the first finding:"
_WIDTH = 100
_NAMED = 3  # trials that ended for the same reason; the others are counted
_LINES, _LONG = 8, 120  # of what an application has written, or other orders have done
_REQUESTS = 16  # successive ones that differ, in JSON

_ORDER_ID = re.compile(r"verify-[0-9a-f]{8}-[0-9]+")
_URL = re.compile(r"https?://[^\s&<>]*[\w/]")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_MARKUP = re.compile(r"\\(?=[^\w\s]|$)|[`*~\[\]]|(?<!\w)_|_(?!\w)|^[#>+=-]")


class Verdict(StrEnum):
    """Whether an application handles money safely, as far as it was seen."""

    SAFE = "SAFE"
    UNSAFE = "UNSAFE"
    UNDETERMINED = "UNDETERMINED"


_BATCH_FIXES = {  # of what a batch has shown, by a part of its token
    "=crash": "Write an order down before anything is sent. Deliver and record it in one transaction, or "
    "give the warehouse the order id as its key.",
    "order=": "Put a unique key on the order id: insert the order first, and use the one that is there.",
    "=meet": "Let the database decide which replica delivers, by a unique key or a lease.",
}


class Step(NamedTuple):
    """A change of a payment, seconds after its creation, and what the application sent until the next."""

    at: str
    event: str
    status: str
    requests: list[str]


@dataclass(frozen=True)
class Finding:
    """A rule that was broken, with the smallest plan that breaks it, whose `token` repeats it.

    `cause` tells it in a line; `also` are other rules that the same cause breaks. `requests` are those of the
    order, oldest first, as in the journal; `marks` are other events, by the index of the request before.
    `payments` are those of the order, oldest first: `payment_id`, `scenario`, `timeline`, and the sums `due`
    and `received` in raw units of its `asset`; `timeline` and `payment_id` are of the newest. It broke in
    `occurrences` of `tried` trials with this cause; 0: of an unknown number. `repeated`: seen once more.
    `output`: what the application wrote last before; `neighbors`: what other orders did; `goods_at`: at which
    status the first goods went out, if that was seen.
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
    output: list[str] = field(default_factory=list)
    neighbors: list[str] = field(default_factory=list)
    goods_at: str = ""

    @property
    def fix(self) -> str:
        """How to fix it, by itself: who installed paymock has no documents beside it."""
        for part, fix in _BATCH_FIXES.items():
            if part in self.token and self.is_money:
                return fix
        return RULES[self.rule].fix

    @property
    def severity(self) -> Severity:
        return RULES[self.rule].severity

    @property
    def is_money(self) -> bool:
        return self.severity is Severity.MONEY

    @property
    def count(self) -> str:
        return f"{self.occurrences} of {self.tried}" if self.tried else _counted(self.occurrences, "trial")

    @property
    def title(self) -> str:
        return f"{self.rule} {self.cause}".rstrip()

    @property
    def option(self) -> str:
        """What repeats the trial: an option of the command, or else an argument in Python."""
        return f"--only {shell_word(self.token)}" if self.command else f"only={self.token!r}"

    @property
    def notes(self) -> str:
        again = "" if self.repeated else ", not repeated"
        also = f"; also: {', '.join(self.also)}" if self.also else ""
        return f"({self.severity}, {self.count}{again}{also})"

    @property
    def parts(self) -> Iterator[tuple[str, list[str]]]:
        """The story: each part with its name, and its lines. Of advice, only what is wrong."""
        output, others = self.output[-_LINES:], self.neighbors[:_LINES]
        more = {"Application": ("Output", output), "Goods": ("Others", others)}
        for line in self.story if self.is_money else [f"Wrong: {self.explanation}"]:
            name, _, text = line.partition(":")
            yield name, [text.strip()]
            part, lines = more.get(name, ("", []))
            if lines:
                yield part, [line if len(line) < _LONG else f"{line[:_LONG]}…" for line in lines]
        yield "Fix", [self.fix]

    @property
    def entries(self) -> list[Json]:
        """The requests, and between them what `marks` tells, as `{"event": TEXT}`."""
        entries = [*self.requests]
        for index in sorted(self.marks, reverse=True):
            entries.insert(index + 1, {"event": self.marks[index]})
        return entries

    @property
    def courses(self) -> Iterator[tuple[str, list[Step]]]:
        """Each payment of the order: its scenario and sums, and its timeline with the requests."""
        if not self.payments:
            yield "", steps(self.timeline, self.entries)
        own: dict[str, list[Json]] = {payment["payment_id"]: [] for payment in self.payments}
        current = next(iter(own), "")
        for entry in self.entries:
            if entry.get("payment_id") in own:  # else, it stands with the one before
                current = entry["payment_id"]
            own.setdefault(current, []).append(entry)
        for number, payment in enumerate(self.payments, 1):
            sums = f"due {payment['due']}, received {payment['received']} raw units of {payment['asset']}"
            course = steps(payment["timeline"], own[payment["payment_id"]])
            yield f"payment {number}: {payment['scenario']}; {sums}", course

    @property
    def course(self) -> list[str]:
        return [line for title, course in self.courses for line in [title, *transcript(course)] if line]

    def as_json(self) -> Json:
        """The finding. Equal successive requests are one, with `times`; what is empty is left out."""
        names = ["error", "idempotency", "key", "differs", "shown", *["payment_id"] * bool(self.payments[1:])]
        requests: list[Json] = []
        for entry in self.entries:
            always = ("operation", "status", "fault") if "operation" in entry else ("event",)
            said = names if entry.get("operation") else ["method", "path", *names]
            requests.append(
                {name: entry.get(name) for name in (*always, *said) if name in always or entry.get(name)}
            )
        counted = [(one, len([*equal])) for one, equal in groupby(requests)]
        folded = [one | ({"times": times} if times > 1 else {}) for one, times in counted]
        if omitted := len(folded[_REQUESTS:]):
            folded[_REQUESTS // 4 : _REQUESTS // 4 + omitted] = [{"omitted": omitted}]
        payments = []
        for payment, (_, course) in zip(self.payments, self.courses, strict=False):
            changes = groupby(course, key=lambda step: step.status)
            payments.append(payment | {"timeline": {status: next(same).at for status, same in changes}})
        parts = dict(self.parts)
        own = {"severity": self.severity, "fix": self.fix, "requests": folded, "payments": payments}
        told = asdict(self) | own | {"output": parts.get("Output", []), "neighbors": parts.get("Others", [])}
        return {name: value for name, value in told.items() if name not in ("timeline", "marks", "goods_at")}

    def __str__(self) -> str:
        lines = [f"{self.title} {self.notes}"]
        for name, texts in [*self.parts, ("Repeat", [self.option])]:
            for number, text in enumerate(texts):
                indent = f"  {'' if number else f'{name}:':<13}"
                lines += wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=" " * 15)
        lines += ["", *(f"    {line}" for line in self.course)] if self.is_money else []
        return "\n".join(escape_control(line) for line in lines)


@dataclass(frozen=True)
class Coverage:
    """How much was tried; `batches` of orders that are hit at once; `not_tried`: what was not, and how to."""

    scenarios: int = 0
    of_scenarios: int = 0
    faults: int = 0
    batches: list[str] = field(default_factory=list)
    not_tried: list[str] = field(default_factory=list)

    @property
    def scope(self) -> str:
        return f"{self.scenarios} of {self.of_scenarios} scenarios"

    def __str__(self) -> str:
        left_out = f"; not tried: {', '.join(self.not_tried)}" if self.not_tried else ""
        return ", ".join([self.scope, _counted(self.faults, "fault"), *self.batches]) + left_out


@dataclass(frozen=True)
class Report:
    """What the judge has found. `trials` have ended, of so many `planned`; `undetermined` says what was not
    seen to its end, and why; of rules `not_judged`, nothing can be said. `partial`: a part of it all was
    run. `notes` change nothing. With the `--only` of a finding, `command` repeats its trial; empty in Python.
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
    planned: int = 0

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
        if any(finding.is_money for finding in self.findings):
            return Verdict.UNSAFE
        return Verdict.UNDETERMINED if self.undetermined or not self.trials else Verdict.SAFE

    @property
    def exit_code(self) -> int:
        return {Verdict.SAFE: 0, Verdict.UNSAFE: 1, Verdict.UNDETERMINED: 3}[self.verdict]

    @property
    def summary(self) -> str:
        """The verdict, its reason and what was tried, in one line."""
        faults = [_counted(self.coverage.faults, "fault")] if self.partial else []
        of = f"{self.trials} of " if self.planned else ""
        trials = of + _counted(self.planned or self.trials, "trial")
        tried = ", ".join([self.coverage.scope, *faults, trials])
        if self.verdict is Verdict.SAFE:
            return f"SAFE in {tried}: no rule about money was broken; {self.seconds:.0f} s"
        reason = "not everything was seen to its end"
        if self.verdict is Verdict.UNSAFE:
            first = self.fix_first[0]
            broken = [rule for rule, told in self.rules.items() if told == "broken" and rule != first.rule]
            others = ", ".join(rule for rule in broken if RULES[rule].severity is Severity.MONEY)
            reason = f"{first.title} ({first.count}){others and f'; also {others}'}"
        return escape_control(f"{self.verdict}: {reason}; {tried}; {self.seconds:.0f} s")

    @property
    def fix_first(self) -> list[Finding]:
        """The findings, those about money first."""
        return sorted(self.findings, key=lambda finding: not finding.is_money)

    @property
    def lists(self) -> dict[str, list[str]]:
        """What is listed beside the stories: each broken rule with its cause, and what was not seen."""
        causes = [f"{one.title} ({one.severity})" for one in self.fix_first]
        reasons = {"Not seen to its end": [*grouped(self.undetermined)], "Notes": [*grouped(self.notes)]}
        return {title: lines for title, lines in [("Fix first", causes), *reasons.items()] if lines}

    def as_json(self) -> Json:
        first = {"verdict": str(self.verdict), "partial": self.partial, "rules": self.rules}
        lists = {name: [*grouped(getattr(self, name))] for name in ("undetermined", "notes")}
        return {**first, **asdict(self), **lists, "findings": [one.as_json() for one in self.findings]}

    def __str__(self) -> str:
        verdicts = []
        for verdict in dict.fromkeys(("broken", *self.rules.values())):
            rules = ", ".join(rule for rule, told in self.rules.items() if told == verdict)
            indent = f"  {verdict:<13}"
            verdicts += wrap(rules, _WIDTH, initial_indent=indent, subsequent_indent=" " * 15)
        parts = [self.summary, "\n".join([*verdicts, escape_control(str(self.coverage))])]
        told = ["\n  - ".join([f"{title}:", *map(escape_control, one)]) for title, one in self.lists.items()]
        before = len(self.findings[:1])
        parts += [*told[:before], *map(str, self.fix_first), *told[before:]]
        for first in self.fix_first[:1]:
            parts += [_REPEAT, first.command or first.option]
        return "\n\n".join(parts)


def grouped(lines: Iterable[str]) -> Iterator[str]:
    """Lines like `TOKEN: REASON`, those of the same reason as one, which counts and names their tokens."""
    groups: dict[str, list[str]] = {}
    for line in lines:
        groups.setdefault(_ORDER_ID.sub("", line.partition(": ")[2] or line), []).append(line)
    for same in groups.values():
        names = [*dict.fromkeys(line.partition(": ")[0] for line in same)]
        more = f" and {len(names) - _NAMED} more" if len(names) > _NAMED else ""
        told = f"{same[0].partition(': ')[2]} ({len(same)} times: {', '.join(names[:_NAMED])}{more})"
        yield told if len(same) > 1 else same[0]


def _counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def steps(timeline: Sequence[Json], entries: Iterable[Json]) -> list[Step]:
    """The changes of a payment, each with the requests and other events until the next."""
    states = {entry["offset_seconds"]: entry for entry in timeline if entry["reached"]}
    at, beside = 0.0, {offset: list[str]() for offset in states or (0.0,)}
    for entry in entries:
        text = entry.get("event") or entry["operation"] or f"{entry['method']} {entry['path']}"
        if entry.get("fault"):
            text += f" ✗ {entry['fault']}"
        elif "event" not in entry:
            key = entry.get("key") and f"key {entry['key']}"
            text = " ".join(filter(None, [text, str(entry["status"]), entry["idempotency"], key]))
        shown = entry.get("shown_offset_seconds")  # none where a fault hid the reply
        at = shown if shown in beside else at
        beside.setdefault(at, []).append(text)
    found = []
    for offset, texts in beside.items():
        state = states.get(offset, {})
        counts = [(text, len([*group])) for text, group in groupby(texts)]
        told = [text if count == 1 else f"{text} ({count} times)" for text, count in counts]
        found.append(Step(format_seconds(offset), state.get("event", ""), state.get("status", ""), told))
    return found


def transcript(course: Sequence[Step]) -> list[str]:
    """The changes of a payment, as lines; of several with the same requests, the first and the last."""
    width = max(len(step.event) for step in course)
    lines = []
    for _, group in groupby(course, key=lambda step: step.requests):
        first, *more = [f"{at:>4} s  {event:<{width}}  {', '.join(told)}" for at, event, _, told in group]
        folded = [f"   …    {len(more) - 1} more"] if len(more) > 3 else more[:-1]
        lines += [first, *folded, *more[-1:]]
    return [line.rstrip() for line in lines]


def junit(report: Report) -> bytes:
    """The report as JUnit: a case for each rule, which passes with advice as output, and one for the end."""
    suite = ET.Element("testsuite", name="paymock verify", tests=str(len(RULES) + 1))
    names = [*RULES, "seen_to_its_end"]
    cases = {name: ET.SubElement(suite, "testcase", classname="paymock.verify", name=name) for name in names}
    for finding in report.findings:
        for name in dict.fromkeys((finding.rule, *finding.also)):
            told = ET.SubElement(cases[name], "system-out")
            told.text = f"{finding}\n\nTo repeat it:\n\n{finding.command or finding.option}"
            if RULES[name].severity is Severity.MONEY:
                told.tag, told.attrib = "failure", {"type": name, "message": finding.explanation}
    if report.undetermined:
        message = f"{len(report.undetermined)} not seen to the end"
        error = ET.SubElement(cases["seen_to_its_end"], "error", message=message)
        error.text = "\n".join(map(escape_control, grouped(report.undetermined)))
    for name, element in (("failures", "failure"), ("errors", "error")):
        suite.set(name, str(len(suite.findall(f"testcase/{element}"))))
    suite.set("time", f"{report.seconds:.3f}")
    ET.SubElement(suite, "system-out").text = f"{report.summary}\n{escape_control(str(report.coverage))}"
    ET.indent(suite)
    return bytes(ET.tostring(suite, encoding="utf-8", xml_declaration=True))


def markdown(report: Report) -> bytes:
    """The report as Markdown, for the summary of a CI job."""
    rows = [f"| `{rule}` | {RULES[rule].severity} | {verdict} |" for rule, verdict in report.rules.items()]
    table = ["| Rule | Severity | Verdict |", "| --- | --- | --- |", *rows]
    parts = [f"## {_escaped(report.summary)}", "\n".join(table), _escaped(str(report.coverage)) + "."]
    for title, lines in report.lists.items():
        parts.append("\n".join([f"### {title}", "", *(f"- {_escaped(line)}" for line in lines)]))
    for finding in report.fix_first:
        parts.append(f"### `{finding.rule}` {_escaped(f'{finding.cause} {finding.notes}'.lstrip())}")
        story = [f"- {_escaped(name)}: {'<br>'.join(map(_escaped, lines))}" for name, lines in finding.parts]
        parts.append("\n".join([*story, f"- Repeat: `{finding.option}`"]))
        if finding.is_money:
            course = _block("text", "\n".join(map(escape_control, finding.course)))
            parts += ["<details><summary>Requests</summary>", course, "</details>"]
    for first in report.fix_first[:1]:
        parts += [_REPEAT, _block("sh", first.command or first.option)]
    return ("\n\n".join(parts) + "\n").encode()


def _block(language: str, text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _escaped(text: str) -> str:
    """The text as Markdown, in which what stands between backticks is code."""
    parts = _CODE.split(escape_control(text))
    parts[::2] = [escape(_MARKUP.sub(r"\\\g<0>", part), quote=False) for part in parts[::2]]
    parts[1::2] = [f"`{code}`" for code in parts[1::2]]
    return "".join(parts)


def html(report: Report) -> bytes:
    """The report as a page that needs nothing else."""
    from jinja2 import Environment  # imported when a page is wanted
    from markupsafe import Markup

    def prose(text: object) -> Markup:
        told = _CODE.sub(r"<code>\1</code>", escape(escape_control(str(text))))
        return Markup(_URL.sub(r'<a href="\g<0>">\g<0></a>', told))  # noqa: S704 - escaped

    environment = Environment(autoescape=True, trim_blocks=True, lstrip_blocks=True)
    environment.filters["prose"] = prose
    source = Path(__file__).with_name("report.html").read_text(encoding="utf-8")
    return environment.from_string(source).render(report=report).encode()
