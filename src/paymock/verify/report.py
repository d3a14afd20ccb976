"""The report: the verdict, and each finding as a story. Text, JSON, JUnit, Markdown, HTML."""

import re
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, dataclass, field
from enum import StrEnum
from html import escape
from itertools import groupby, takewhile
from operator import itemgetter
from pathlib import Path
from textwrap import wrap
from time import gmtime, strftime
from typing import NamedTuple

from paymock import __version__
from paymock.client.http import Json
from paymock.text import escape_control, format_seconds, shell_word
from paymock.verify.checks import CHECKS, Severity, costs_money

_REPEAT = "To repeat the first finding:"
_WIDTH = 100
_NAMED = 3  # trials that ended for the same reason; the others are counted
_LINES, _LONG = 8, 120  # maximum lines of what an application has written, and their length
_OTHERS, _WIDE = 5, 220  # the same of other orders
_REQUESTS = 16  # maximum number of successive requests that differ, in JSON

_LEFT_OUT = ("timeline", "marks", "goods_at", "batch_fix")  # of JSON
_ORDER_ID = re.compile(r"verify-[0-9a-f]{8}-[0-9]+")
_URL = re.compile(r"https?://[^\s&<>]*[\w/]")
_CODE = re.compile(r"(?<!`)`([^`]+)`(?!`)")
_MARKUP = re.compile(r"\\(?=[^\w\s]|$)|[`*~\[\]]|(?<!\w)_|_(?!\w)|^[#>+=-]")


class Verdict(StrEnum):
    """Whether an application handles money safely, as far as it was seen."""

    SAFE = "SAFE"
    UNSAFE = "UNSAFE"
    UNDETERMINED = "UNDETERMINED"


class Certainty(StrEnum):
    """How certain a finding is: its token was run again and seen; one run proves it; or it was seen once."""

    REPEATED = "repeated"
    RECORDED = "recorded"
    SUSPECTED = "suspected"


class Step(NamedTuple):
    """A change of a payment, seconds after its creation, and what the application sent until the next."""

    at: str
    event: str
    status: str
    requests: list[str]


@dataclass(frozen=True)
class Finding:
    """A rule that was broken, with the smallest plan that breaks it."""

    rule: str
    scenario: str
    faults: list[str]
    token: str  # repeats the plan
    explanation: str
    story: list[str]
    requests: list[Json]  # of the order, oldest first, as in the journal
    timeline: list[Json]  # of its newest payment
    order_id: str
    payment_id: str | None  # of its newest payment
    occurrences: int = 1  # trials with this cause that broke the rule
    command: str = ""  # a command line that repeats it; empty in Python
    cause: str = ""  # in a line
    tried: int = 0  # trials with this cause; 0: an unknown number
    also: list[str] = field(default_factory=list)  # other rules that the same cause breaks
    payments: list[Json] = field(default_factory=list)  # oldest first; sums in raw units of `asset`
    certainty: Certainty = Certainty.REPEATED
    marks: dict[int, str] = field(default_factory=dict)  # other events, by the index of the request before
    output: list[str] = field(default_factory=list)  # what the application wrote last before
    neighbors: list[str] = field(default_factory=list)  # what other orders did
    goods_at: str = ""  # the status at which the first goods went out, if that was seen
    batch_fix: str = ""  # how to fix what a batch of orders has shown

    @property
    def fix(self) -> str:
        """How to fix it, by itself: who installed paymock has no documents beside it."""
        return (self.is_money and self.batch_fix) or CHECKS[self.rule].fix

    @property
    def is_certain(self) -> bool:
        return self.certainty is not Certainty.SUSPECTED

    @property
    def severity(self) -> Severity:
        return CHECKS[self.rule].severity

    @property
    def is_money(self) -> bool:
        return self.severity is Severity.MONEY

    @property
    def count(self) -> str:
        return f"{self.occurrences} of {self.tried}" if self.tried else counted(self.occurrences, "trial")

    @property
    def title(self) -> str:
        return f"{self.rule} {self.cause}".rstrip()

    @property
    def option(self) -> str:
        """What repeats the trial: an option of the command, or else an argument in Python."""
        return f"--only {shell_word(self.token)}" if self.command else f"only={self.token!r}"

    @property
    def notes(self) -> str:
        told = {Certainty.SUSPECTED: ", not confirmed", Certainty.RECORDED: ", recorded"}
        again = told.get(self.certainty, "") if self.is_money else ""
        also = f"; also: {', '.join(self.also)}" if self.also else ""
        return f"({self.severity}, {self.count}{again}{also})"

    @property
    def parts(self) -> Iterator[tuple[str, list[str]]]:
        """The story: each part with its name, and its lines. Of advice, only what is wrong."""
        output = [_cut(one, _LONG) for one in self.output[-_LINES:]]
        others = [_cut(one, _WIDE) for one in self.neighbors[:_OTHERS]]
        more = {"Application": ("Output", output), "Goods": ("Others", others)}
        for line in self.story if self.is_money else [f"Wrong: {self.explanation}"]:
            name, _, text = line.partition(":")
            yield name, [text.strip()]
            part, lines = more.get(name, ("", []))
            if lines:
                yield part, lines
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
        own: Json = {"severity": self.severity, "fix": self.fix, "requests": folded, "payments": payments}
        own["repeated"] = self.certainty is Certainty.REPEATED
        told = asdict(self) | own | {"output": parts.get("Output", []), "neighbors": parts.get("Others", [])}
        return {name: value for name, value in told.items() if name not in _LEFT_OUT}

    def __str__(self) -> str:
        lines = [f"{self.title} {self.notes}"]
        for name, texts in [*self.parts, ("Repeat", [self.option])]:
            for number, text in enumerate(texts):
                indent = f"  {'' if number else f'{name}:':<13}"
                lines += wrap(text, _WIDTH, initial_indent=indent, subsequent_indent=" " * 15)
        lines += ["", *(f"    {line}" for line in self.course)] if self.is_money else []
        return "\n".join(escape_control(line) for line in lines)


def _cut(text: str, length: int) -> str:
    return text if len(text) <= length else f"{text[:length]}…"


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
        return ", ".join([self.scope, counted(self.faults, "fault"), *self.batches]) + left_out


@dataclass(frozen=True)
class Report:
    """What the judge has found."""

    findings: list[Finding]
    trials: int  # that have ended
    undetermined: list[str]  # what was not seen to its end, and why
    scenarios: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)  # change nothing
    seconds: float = 0.0
    command: str = ""  # with the `--only` of a finding, it repeats its trial; empty in Python
    coverage: Coverage = field(default_factory=Coverage)
    partial: bool = False  # a part of it all was run
    not_judged: list[str] = field(default_factory=list)  # rules of which nothing can be said
    planned: int = 0  # trials
    patience: str = ""  # how long an open payment stood still that was read all the time
    slow_seconds: float = 0.0  # for a call of the judge's own, on a machine that is too slow to judge
    output: list[str] = field(default_factory=list)  # the last lines of the application

    @property
    def rules(self) -> dict[str, str]:
        """Each rule, in their order: broken, not judged, undetermined or passed."""
        is_open = self.undetermined or not self.trials
        verdicts = dict.fromkeys(CHECKS, "undetermined" if is_open else "passed")
        verdicts |= dict.fromkeys(self.not_judged, "not judged")
        for finding in (one for one in self.findings if one.is_certain or not one.is_money):
            verdicts |= dict.fromkeys((finding.rule, *finding.also), "broken")
        return verdicts

    @property
    def failed(self) -> list[str]:
        return [rule for rule, verdict in self.rules.items() if verdict == "broken" and costs_money(rule)]

    @property
    def skipped(self) -> list[str]:
        """The rules of which nothing can be said."""
        return [rule for rule, verdict in self.rules.items() if verdict in ("undetermined", "not judged")]

    @property
    def verdict(self) -> Verdict:
        """UNSAFE if a rule about money was broken for certain; else UNDETERMINED if anything is open."""
        if any(finding.is_money and finding.is_certain for finding in self.findings):
            return Verdict.UNSAFE
        return Verdict.UNDETERMINED if self.undetermined or not self.trials else Verdict.SAFE

    @property
    def exit_code(self) -> int:
        return {Verdict.SAFE: 0, Verdict.UNSAFE: 1, Verdict.UNDETERMINED: 3}[self.verdict]

    @property
    def summary(self) -> str:
        faults = [counted(self.coverage.faults, "fault")] if self.partial else []
        of = f"{self.trials} of " if self.planned else ""
        trials = of + counted(self.planned or self.trials, "trial")
        told = ", ".join(filter(None, [self.coverage.scope, *faults, trials, self.patience]))
        slow = f"this machine is too slow to judge (replies of {self.slow_seconds * 1000:.0f} ms)"
        slow += ": run fewer things beside it"
        tried = "; ".join([told, *[slow] * bool(self.slow_seconds), f"{self.seconds:.0f} s"])
        if self.verdict is Verdict.SAFE:
            return f"SAFE in {told}: no rule about money was broken{tried.removeprefix(told)}"
        reason, first = "not everything was seen to its end", next(iter(self.money), None)
        if first and self.verdict is Verdict.UNDETERMINED:
            reason = f"{first.title}, not confirmed"
        elif first:
            others = ", ".join(rule for rule in self.failed if rule != first.rule)
            reason = f"{first.title} ({first.count}){others and f'; also {others}'}"
        return escape_control(f"{self.verdict}: {reason}; {tried}")

    @property
    def money(self) -> list[Finding]:
        """The findings about money, the certain ones first."""
        found = [one for one in self.findings if one.is_money]
        return sorted(found, key=lambda one: [*Certainty].index(one.certainty))

    @property
    def advice(self) -> list[Finding]:
        return [one for one in self.findings if not one.is_money]

    @property
    def in_order(self) -> list[Finding]:
        return [*self.money, *self.advice]

    @property
    def lists(self) -> dict[str, list[str]]:
        """What is listed beside the stories: each broken rule with its cause, and what was not seen."""
        last = self.output if self.undetermined and not self.money else []
        lists = {
            "Fix first": [one.title for one in self.money],
            "Advice": [one.title for one in self.advice],
            "Not seen to its end": [*grouped(self.undetermined)],
            "Notes": [*grouped(self.notes)],
            "Last output of the application": last,
        }
        return {title: lines for title, lines in lists.items() if lines}

    def as_json(self) -> Json:
        told = {"verdict": str(self.verdict), "partial": self.partial, "rules": self.rules, **asdict(self)}
        told |= {name: [*grouped(getattr(self, name))] for name in ("undetermined", "notes")}
        told["findings"] = [one.as_json() for one in self.findings]
        return {name: value for name, value in told.items() if name not in ("slow_seconds", "output")}

    def __str__(self) -> str:
        verdicts = []
        for verdict in dict.fromkeys(("broken", *self.rules.values())):
            rules = ", ".join(rule for rule, told in self.rules.items() if told == verdict)
            indent = f"  {verdict:<13}"
            verdicts += wrap(rules, _WIDTH, initial_indent=indent, subsequent_indent=" " * 15)
        parts = [self.summary, "\n".join([*verdicts, escape_control(str(self.coverage))])]
        told = ["\n  - ".join([f"{title}:", *map(escape_control, one)]) for title, one in self.lists.items()]
        before = bool(self.money) + bool(self.advice)
        parts += [*told[:before], *map(str, self.in_order), *told[before:]]
        for first in self.in_order[:1]:
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


def counted(number: int, noun: str) -> str:
    return f"{number} {noun}{'s' if number != 1 else ''}"


def steps(timeline: Sequence[Json], entries: Iterable[Json]) -> list[Step]:
    """The changes of a payment, each with the requests and other events until the next."""
    states = {entry["offset_seconds"]: entry for entry in takewhile(itemgetter("reached"), timeline)}
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
    return _render(report, "report.xml")


def markdown(report: Report) -> bytes:
    """The report as Markdown, for the summary of a CI job."""
    return _render(report, "report.md")


def html(report: Report) -> bytes:
    return _render(report, "report.html")


def _render(report: Report, template: str) -> bytes:
    from jinja2 import Environment  # imported when a file is wanted
    from markupsafe import Markup

    def prose(text: object) -> Markup:
        told = _CODE.sub(r"<code>\1</code>", escape(escape_control(str(text))))
        return Markup(_URL.sub(r'<a href="\g<0>">\g<0></a>', told))  # noqa: S704 - escaped

    def block(text: str, language: str) -> Markup:
        fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
        return Markup(f"{fence}{language}\n{text}\n{fence}")  # noqa: S704 - Markdown

    def markdown(text: object) -> Markup:
        parts = _CODE.split(escape_control(str(text)))  # what stands between backticks is code
        parts[::2] = [escape(_MARKUP.sub(r"\\\g<0>", part), quote=False) for part in parts[::2]]
        parts[1::2] = [f"`{code}`" for code in parts[1::2]]
        return Markup("".join(parts))  # noqa: S704 - escaped

    environment = Environment(
        autoescape=True, trim_blocks=True, lstrip_blocks=True, keep_trailing_newline=True
    )
    environment.filters |= {"prose": prose, "block": block, "plain": escape_control, "markdown": markdown}
    source = Path(__file__).with_name(template).read_text(encoding="utf-8")
    made = f"paymock {__version__}, {strftime('%Y-%m-%d %H:%M UTC', gmtime())}"
    return environment.from_string(source).render(report=report, made=made, checks=CHECKS).encode()
