"""The report for machines: JUnit, and a summary in Markdown."""

import re
from html import escape
from xml.etree import ElementTree as ET

from paymock.client.text import escape_control
from paymock.verify.report import REPEAT, Finding, Report, course_lines
from paymock.verify.rules import RULES, Severity

_MARKUP = re.compile(r"[\\`|*#~\[\]]")


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
        ET.SubElement(suite, "system-out").text = f"{REPEAT}\n\n{report.command}"
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
        parts += [REPEAT, _block("sh", report.command)]
    return "\n\n".join(parts) + "\n"


def _details(finding: Finding) -> str:
    course = "\n".join(map(escape_control, course_lines(finding.timeline, finding.requests)))
    story = "\n".join(f"- {_escaped(line)}" for line in finding.story)
    return (
        f"### `{finding.rule}`\n\n{story}\n\n<details><summary>Requests</summary>\n\n"
        f"{_block('text', course)}\n\n</details>\n\nRepeat: `{finding.repetition}`"
    )


def _block(language: str, text: str) -> str:
    fence = "`" * max([3, *(len(run) + 1 for run in re.findall("`+", text))])
    return f"{fence}{language}\n{text}\n{fence}"


def _escaped(text: str) -> str:
    return escape(escape_control(_MARKUP.sub(r"\\\g<0>", text)), quote=False)
