"""Shops that handle money rightly, and shops with one bug each: what the judge says of them."""

import json
import os
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.server_process import environment
from paymock.testing import Sandbox
from paymock.verify import Report, verify
from tests.verify.shops.table import BAD, GOOD, SHOPS, Case

CI = {
    "delivers_when_detected",
    "drops_on_html",
    "delivers_before_receipt",
    "new_key_per_try",
    "polls_forever",
}
"""One for each rule about money, and one for advice. With them goes the poller, in two scenarios."""

WITHOUT_FAULTS = {"reads_by_replay", "delivers_each_sighting", "two_workers"}
"""Shops whose bug takes no fault, beside those that deliver free goods."""

POLLER = SHOPS["poller"]._replace(scenarios=("late_payment", "underpaid_expired"))


def in_tiers(cases: Iterable[Case]) -> list[Any]:
    return [
        pytest.param(case, id=case.name, marks=pytest.mark.ci if case.name in CI else pytest.mark.nightly)
        for case in cases
    ]


def judged(case: Case, sandbox: Sandbox) -> Report:
    with case.shop(sandbox.url, sandbox.api_key) as shop:
        return verify(
            sandbox,
            order=shop.order,
            deliveries=shop.deliveries,
            tick=None if shop.own_pace else shop.tick,
            fulfil_at=case.fulfil_at,
            scenarios=case.scenarios,
        )


@pytest.mark.parametrize(
    "case", [*in_tiers(GOOD), pytest.param(POLLER, id="poller in two scenarios", marks=pytest.mark.ci)]
)
def test_a_shop_that_is_right_is_safe_and_gets_no_advice(case: Case, paymock: Sandbox) -> None:
    report = judged(case, paymock)
    assert report.verdict == "SAFE", str(report)
    assert report.findings == [], str(report)
    assert report.trials >= (400 if case.scenarios is None else 80)


# A thread of a wrong shop may end with an exception, which is its bug.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", in_tiers(BAD))
def test_the_bug_of_a_shop_is_found_with_its_rule(case: Case, paymock: Sandbox) -> None:
    report = judged(case, paymock)
    assert report.verdict == case.verdict, str(report)
    found = {finding.rule: finding.faults for finding in reversed(report.findings)}
    assert case.rules <= found.keys(), str(report)
    if case.verdict == "UNSAFE" and "free_goods" not in case.rules:
        assert all(found[rule] for rule in case.rules) == (case.name not in WITHOUT_FAULTS), str(report)


FOLDER = Path(__file__).parent / "shops"


class Shop(NamedTuple):
    """How a shop is started, right or with one bug, and the rule that the bug breaks."""

    right: str
    wrong: str
    rule: str
    tick: bool = False


CASES = {
    "node": Shop("node good.mjs", "node bad.mjs", "double_payment"),
    "java": Shop("java Shop.java", "java Shop.java bad", "free_goods"),
    "go": Shop("go run shop.go", "go run shop.go bad", "lost_sale"),
    "php": Shop("php -S 127.0.0.1:$PORT good.php", "php -S 127.0.0.1:$PORT bad.php", "free_goods", tick=True),
}
"""By the group of tests."""

FOLDERS = {"node": "javascript"}


@pytest.mark.nightly
@pytest.mark.parametrize("kind", ["right", "wrong"])
@pytest.mark.parametrize("group", [pytest.param(name, marks=getattr(pytest.mark, name)) for name in CASES])
def test_a_shop_in_another_language_is_judged_as_it_deserves(group: str, kind: str, tmp_path: Path) -> None:
    case = CASES[group]
    with socket.create_server(("127.0.0.1", 0)) as free:
        port = free.getsockname()[1]
    url = f"http://127.0.0.1:{port}"
    start = case.right if kind == "right" else case.wrong
    command = [
        *(str(Path(sys.executable).parent / "paymock"), "verify", "--json"),
        *("--run", f"cd {shlex.quote(str(FOLDER / FOLDERS.get(group, group)))} && exec {start}"),
        *("--ready", f"{url}/health"),
        *("--order", f"POST {url}/orders/{{order_id}}", "--deliveries", f"GET {url}/deliveries/{{order_id}}"),
        *(("--tick", f"GET {url}/tick") if case.tick else ()),
        *("--scenario", "happy_path", "--scenario", "settlement_failed"),
        *("--fault", "drop", "--fault", "status=500", "--fault", "truncate=20"),
    ]
    variables = environment(PATH=os.environ["PATH"], PORT=str(port), STATE=str(tmp_path / "state"))
    done = subprocess.run(command, env=variables, capture_output=True, text=True, timeout=400, check=False)
    report = json.loads(done.stdout)
    rules = {finding["rule"] for finding in report["findings"]}
    if kind == "right":
        assert (report["verdict"], rules, done.returncode) == ("SAFE", set(), 0), report
    else:
        assert (report["verdict"], done.returncode) == ("UNSAFE", 1), report
        assert case.rule in rules
