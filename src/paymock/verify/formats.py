"""The report for machines: JUnit, and a summary in Markdown."""

from xml.etree import ElementTree as ET

from paymock.client.text import escape_control
from paymock.verify.report import Finding, Report, course_lines
from paymock.verify.rules import RULES, Severity


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
    ET.indent(suite)
    document: bytes = ET.tostring(suite, encoding="utf-8", xml_declaration=True)
    return document


def markdown(report: Report) -> str:
    """The report as Markdown, for the summary of a CI job."""
    parts = [f"## paymock verify: {report.verdict}", report.summary.partition(": ")[2] + "."]
    if report.findings:
        rows = [
            f"| `{finding.rule}` | {finding.severity} | {finding.scenario} | "
            f"{_cell('; '.join(finding.faults) or 'none')} | {finding.occurrences} |"
            for finding in report.findings
        ]
        head = ["| Rule | Severity | Scenario | Faults | Trials |", "| --- | --- | --- | --- | ---: |"]
        parts.append("\n".join([*head, *rows]))
    parts += [_details(finding) for finding in report.findings]
    if report.undetermined:
        lines = [f"- {_cell(line)}" for line in report.undetermined]
        parts.append("\n".join(["### Not seen to its end", "", *lines]))
    return "\n\n".join(parts) + "\n"


def _details(finding: Finding) -> str:
    course = "\n".join(map(escape_control, course_lines(finding.timeline, finding.requests)))
    story = "\n".join(f"- {escape_control(line)}" for line in finding.story)
    repeat = finding.command or finding.token
    return (
        f"### `{finding.rule}`\n\n{story}\n\n<details><summary>Requests</summary>\n\n"
        f"```text\n{course}\n```\n\n</details>\n\nRepeat: `{repeat}`"
    )


def _cell(text: str) -> str:
    return escape_control(text).replace("|", "\\|")
