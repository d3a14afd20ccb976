"""docs/faults.md: each recipe notices a bad client, and its commands add the same rules."""

import re
import shlex
from pathlib import Path

import pytest

from paymock.testing import Sandbox
from tests.support import in_process, markdown
from tests.support.snippets import run_in, write_files

PAGE = markdown.read("docs/faults.md")
RECIPES = [
    (blocks[0].text, blocks[1].text)
    for blocks in map(markdown.blocks, PAGE.split("\n## "))
    if [block.language for block in blocks] == ["python", "sh"]
]
"""Tests of the page, each with the commands that add the same rules."""
TESTS = {*re.findall(r"^def (test_\w+)", PAGE, re.MULTILINE)}

FAULT = re.compile(r'"((?:(?:status|delay|truncate)=|drop|reset|hang)[^"]*)"')
SEND = "reply = self.http.request(method, path, **request)"
BAD_CLIENTS = {
    "does not retry": ("PAUSES = (0, 0.2, 0.4, 0.8, 1.6)", "PAUSES = (0,)"),
    "has a new key for each attempt": (
        SEND,
        f'request["headers"] = {{"Idempotency-Key": f"{{time.monotonic_ns()}}"}}\n                {SEND}',
    ),
    "takes a gateway's page for a refusal": ("if from_service and ", "if "),
    "ignores Retry-After": ("max(pause, retry_after)", "pause"),
    "never gives up": ("for pause in self.pauses:", "for pause in self.pauses * 100:"),
    "takes expired for final": ('"failed", "under', '"failed", "expired", "under'),
    "delivers again": (" and order_id not in self.delivered", ""),
}
"""What a client does wrong, and the change of the good one."""


@pytest.mark.nightly
def test_each_recipe_notices_a_bad_client_and_each_bad_client_is_noticed(tmp_path: Path) -> None:
    write_files(tmp_path, markdown.blocks(PAGE))
    shop = tmp_path / "shop.py"
    good = shop.read_text()
    noticed = set()
    for mistake, (old, new) in BAD_CLIENTS.items():
        assert good.count(old) == 1, mistake
        shop.write_text(good.replace(old, new))
        report = run_in(tmp_path, "pytest -q --tb=no -rf || true")
        failed = re.findall(r"^FAILED .*::(\w+)", report, re.MULTILINE)
        assert failed, mistake
        noticed.update(failed)
    assert noticed >= TESTS


@pytest.mark.parametrize(("test", "commands"), RECIPES)
def test_its_commands_add_the_rules_of_the_test(paymock: Sandbox, test: str, commands: str) -> None:
    for line in commands.splitlines():
        program, *arguments = shlex.split(line)
        assert program == "paymock"
        added = in_process.run(*arguments, PAYMOCK_URL=paymock.url, PAYMOCK_API_KEY=paymock.api_key)
        assert added.returncode == 0, added.stderr
    rules = paymock.faults()
    assert {rule["fault"] for rule in rules} == set(FAULT.findall(test))
    for rule in rules:
        assert f'operation="{rule["operation"]}"' in test
        assert not rule["skip"] or f"skip={rule['skip']}" in test
        assert rule["times"] == 1 or f"times={rule['times']}" in test
