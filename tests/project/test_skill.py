"""The skill for coding agents: its names are those of the judge, its commands lead from UNSAFE to SAFE."""

import json
import re
import shutil
import socket
import subprocess
from pathlib import Path
from typing import Any

import pytest
import yaml

from paymock.verify.checks import CHECKS, Severity
from paymock.verify.report import Report, Verdict
from tests.support import markdown
from tests.support.snippets import example_shop, file_of, run_in, variables, write_files

TEXT = markdown.read("skills/paymock/SKILL.md")
MOST_WORDS = 1110
EXIT_CODES = {int(code): name for code, name in re.findall(r"^\| (\d) \| `(\w+)` \|", TEXT, re.MULTILINE)}
MEMBERS = {*re.findall(r"`(\w+)`", TEXT.split("| Member |")[1].split("\n\n")[0])} - {"fault"}
PORT = "8000"
PART = "--scenario happy_path --fault drop --fail-fast"
"""Of a run of all trials, to save a minute: another test has the safe example judged by all of them."""

UNSAFE, SAFE = "unsafe_shop/unsafe_shop.py", "flask_shop/shop.py"


def test_it_has_the_form_of_a_skill_and_the_names_of_the_judge() -> None:
    front_matter = yaml.safe_load(TEXT.split("---\n")[1])
    assert (front_matter.keys(), front_matter["name"]) == ({"name", "description"}, "paymock")
    assert len(TEXT.split()) <= MOST_WORDS
    for severity in Severity:
        [names] = re.findall(rf"^- {severity.capitalize()}: (.*)$", TEXT, re.MULTILINE)
        assert re.findall("`(.*?)`", names) == [name for name in CHECKS if CHECKS[name].severity is severity]
    assert sorted(EXIT_CODES.values()) == sorted(Verdict)  # UNSAFE is in the next test
    for report in (Report([], trials=1, undetermined=[]), Report([], trials=0, undetermined=[])):
        assert EXIT_CODES[report.exit_code] == report.verdict


@pytest.mark.nightly
def test_its_commands_lead_from_unsafe_to_safe(tmp_path: Path) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = str(free.getsockname()[1])
    blocks = [block._replace(text=block.text.replace(PORT, port)) for block in markdown.blocks(TEXT)]
    look, everything, repeat = [block.text.strip() for block in blocks if not file_of(block)]
    write_files(tmp_path, [*example_shop(), *blocks])

    def run(command: str, example: str, token: str = "") -> tuple[str, Any]:
        """The verdict of the exit status, and the report."""
        shutil.copy(markdown.ROOT / "examples" / example, tmp_path / "shop.py")
        ended = subprocess.run(
            ["/bin/sh", "-c", command], cwd=tmp_path, env=variables(TOKEN=token), timeout=300, check=False
        )
        return EXIT_CODES[ended.returncode], json.loads((tmp_path / "verdict.json").read_text())

    assert "underpaid_expired" in run_in(tmp_path, look)
    assert "2 passed" in run_in(tmp_path, "PYTHONWARNINGS=default pytest -q")  # it closes no connection
    part = everything.replace("--budget", f"{PART} --budget")
    verdict, report = run(part, UNSAFE)
    [finding, *_] = report["findings"]
    assert verdict == report["verdict"] == "UNSAFE"
    assert finding.keys() >= MEMBERS
    assert "fault" in finding["requests"][0]

    verdict, report = run(repeat, UNSAFE, finding["token"])
    assert (verdict, report["findings"][0]["rule"]) == ("UNSAFE", finding["rule"])
    verdict, report = run(repeat, SAFE, finding["token"])
    assert (verdict, report["findings"]) == ("SAFE", [])

    verdict, report = run(part, SAFE)
    assert (verdict, report["verdict"], report["partial"]) == ("SAFE", "SAFE", True)  # as PART is one
    assert (tmp_path / "verdict.json").read_text().startswith('{"verdict":"SAFE","partial":')
