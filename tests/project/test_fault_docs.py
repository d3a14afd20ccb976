"""docs/faults.md: a good client passes its tests, bad clients fail them, its commands add the same rules."""

import re
import shlex
from pathlib import Path
from typing import NamedTuple

import pytest

from paymock.testing import Sandbox
from tests.support import in_process, markdown
from tests.support.snippets import file_of, run_in, write_files

PAGE = markdown.read("docs/faults.md")
BLOCKS = markdown.blocks(PAGE)
START, *SECTIONS = map(markdown.blocks, PAGE.split("\n## "))
RECIPES = [
    (test.text, commands.text)
    for blocks in SECTIONS
    if [block.language for block in blocks] == ["python", "sh"]
    for test, commands in [blocks]
]
"""The test of each recipe, and the commands that add the same rules."""

TESTS = {
    name
    for test in (START[0].text, *(test for test, _ in RECIPES))
    for name in re.findall(r"^def (test_\w+)", test, re.MULTILINE)
}
PAGE_OF_GATEWAY = "test_a_page_is_no_reply_of_the_service"
POLLS = "test_failed_polls_neither_lose_nor_repeat_a_delivery"
GIVES_UP = "test_the_client_gives_up_and_keeps_its_key"
WAITS = "test_the_client_waits_as_long_as_the_service_asks"
REAL_TIME = {"test_a_timeout_makes_no_second_payment", "test_the_client_has_a_timeout"}
"""The tests that take seconds, since the client waits for a reply."""

RULE_ID = re.compile("flt_[0-9a-f]{32}")
FAULT = re.compile(r'"((?:(?:status|delay|truncate)=|drop|reset|hang)[^"]*)"')
SEND = "reply = self.http.request(method, path, **request)"


class BadClient(NamedTuple):
    """What a client does wrong: the change of the good one, and the tests that notice it."""

    fault: str
    old: str
    new: str
    noticed_by: set[str]


BAD_CLIENTS = [
    BadClient(
        "does not retry", "PAUSES = (0, 0.2, 0.4, 0.8, 1.6)", "PAUSES = (0,)", TESTS - {POLLS, GIVES_UP}
    ),
    BadClient(
        "has a new key for each attempt",
        SEND,
        f'request["headers"] = {{"Idempotency-Key": f"{{time.monotonic_ns()}}"}}\n                {SEND}',
        TESTS - {POLLS, WAITS},
    ),
    BadClient("takes a gateway's page for a refusal", "if from_service and ", "if ", {PAGE_OF_GATEWAY}),
    BadClient("ignores Retry-After", "max(pause, retry_after)", "pause", {WAITS}),
    BadClient("never gives up", "for pause in PAUSES:", "for pause in PAUSES * 100:", {GIVES_UP}),
    BadClient("delivers again", " and order_id not in self.delivered", "", {POLLS}),
]


def test_every_block_is_a_file_or_commands_and_every_recipe_notices_a_bad_client() -> None:
    tested = {START[1].text, START[2].text, *(commands for _, commands in RECIPES)}
    assert all(file_of(block) or block.text in tested for block in BLOCKS)
    assert set().union(*(client.noticed_by for client in BAD_CLIENTS)) == TESTS


@pytest.mark.nightly
def test_a_good_client_passes(tmp_path: Path) -> None:
    write_files(tmp_path, BLOCKS)
    assert re.fullmatch(r"\.+ +\[100%\]\n\d+ passed in .*\n", run_in(tmp_path, "pytest -q"))


@pytest.mark.nightly
@pytest.mark.parametrize("client", BAD_CLIENTS, ids=lambda client: client.fault)
def test_a_bad_client_is_noticed(tmp_path: Path, client: BadClient) -> None:
    write_files(tmp_path, BLOCKS)
    shop = tmp_path / "shop.py"
    good = shop.read_text()
    assert good.count(client.old) == 1
    shop.write_text(good.replace(client.old, client.new))
    left_out = " or ".join(REAL_TIME - client.noticed_by) or "none"
    report = run_in(tmp_path, f"pytest -q --tb=no -rf -k 'not ({left_out})' || true")
    assert {*re.findall(r"^FAILED .*::(\w+)", report, re.MULTILINE)} == client.noticed_by, report


@pytest.mark.curl
def test_a_command_and_a_request_add_the_same_rule(tmp_path: Path, paymock: Sandbox) -> None:
    _, commands, shown = START
    printed = run_in(tmp_path, commands.text, paymock.url, PAYMOCK_URL=paymock.url)
    assert RULE_ID.sub("flt_", printed).strip() == RULE_ID.sub("flt_", shown.text).strip()


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
