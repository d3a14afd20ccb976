"""Shops that handle money rightly, and shops with one bug each: what the judge says of them."""

import json
import os
import re
import shlex
import socket
import subprocess
import sys
from collections.abc import Iterable
from importlib import import_module
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from harness.server_process import PAYMOCK, environment
from paymock.testing import Sandbox
from paymock.verify import Report, batches, plans
from paymock.verify.batches import parse_token
from paymock.verify.checks import CHECKS, Severity
from paymock.verify.plans import Frequency, Plan
from paymock.verify.runner import SETTLE_SECONDS
from tests.verify.campaigns import few_side_by_side, judged
from tests.verify.shops import base
from tests.verify.shops.table import BAD, GOOD, SHOPS, Case

ROOT = Path(__file__).parents[2]
FOLDER = Path(__file__).parent / "shops"

CI = {
    "breaker_stays_open", "cancels_with_newest", "checks_then_creates", "checks_then_ships",
    "decodes_strictly", "delivers_on_return", "delivers_when_detected", "forgets_expired",
    "gives_up_after_reads", "keyed_warehouse", "knows_all_statuses", "last_reply_wins",
    "looks_for_payment", "poller", "polls_forever", "releases_customer", "renews", "skips_items",
    "takes_any_success", "takes_late_money", "takes_overpaid", "three_items", "two_readers",
    "welcomes_customer",
}  # fmt: skip
"""One for each rule about money, for each way to break it and for nearly each kind of cause; what is right
and looks like it; and what is right with replicas. Those in this process are judged in short. What takes half
a minute is for the night.
"""

WITHOUT_FAULTS = {"delivers_each_sighting", "key_per_customer"}
"""Shops whose bug takes no fault, beside those that deliver free goods."""

CLASSES = [
    "delivers_then_records", "one_transaction", "checks_then_ships", "keyed_warehouse"
]  # fmt: skip
"""A shop for each class of what only the command tries, bad and good."""

FEW_FAULTS = {
    "status=503": Frequency.EACH_STATUS_AND_NEXT,
    "status=200; html": Frequency.EACH_STATUS,
    **dict.fromkeys(("status=401", "drop"), Frequency.FIRST),
}


def in_tiers(cases: Iterable[Case], *, served: bool = False) -> list[Any]:
    chosen = [case for case in cases if case.served == served]
    short = [case for case in chosen if case.name in CI]
    kind = "" if served else " in short"
    at_night = [case for case in chosen if not (served and case in short)]
    return [
        *(pytest.param(case, id=case.name + kind, marks=pytest.mark.ci) for case in short),
        *(pytest.param(case, id=case.name, marks=pytest.mark.nightly) for case in at_night),
    ]


@pytest.fixture
def is_short(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether to judge in short: with few faults, and few orders for short outages."""
    if request.node.get_closest_marker("ci") is None:
        return False
    for name, value in (
        ("_FORTY_ORDERS", 16),
        ("_NEW_ORDERS", 2),
        ("OUTAGE_SECONDS", 0.3),
        ("_TICKED_SECONDS", 0.1),
    ):
        monkeypatch.setattr(batches, name, value)
    monkeypatch.setattr(plans, "FAULTS", FEW_FAULTS)
    few_side_by_side(monkeypatch, 16)
    return True


def judge(case: Case, sandbox: Sandbox) -> Report:
    chosen: dict[str, Any] = {"scenarios": case.scenarios, "faults": None, "settle": 2.0}
    report = judged(sandbox, case.shop, at_once=case.at_once, fulfil_at=case.fulfil_at, **chosen)
    money = [one for one in report.findings if CHECKS[one.rule].severity is Severity.MONEY]
    for one in money:
        plan, sent = parse_token(one.token), {(entry["operation"], entry["fault"]) for entry in one.requests}
        if isinstance(plan, Plan) and "of another order" not in one.story[1]:
            assert sent.issuperset((one.request.operation, one.parsed.text) for one in plan.injections), one
        assert one.is_certain or report.undetermined, one
    if case.causes:
        matching = [pattern for pattern in case.causes for one in money if re.fullmatch(pattern, one.token)]
        assert ({*matching}, len(money)) == ({*case.causes}, len(matching)), str(report)
    return report


@pytest.mark.parametrize("case", in_tiers(GOOD))
def test_a_shop_that_is_right_is_safe_and_gets_no_advice(
    case: Case, paymock: Sandbox, *, is_short: bool
) -> None:
    if is_short and case.scenarios is None:
        case = case._replace(scenarios=("late_payment", "underpaid_expired"))
    report = judge(case, paymock)
    assert report.verdict == "SAFE", str(report)
    assert report.findings == [], str(report)
    assert report.planned >= (50 if is_short else 80)
    assert report.trials >= 0.95 * report.planned  # beside other processes, a poll of a thread may be late


# A thread of a wrong shop may end with an exception, which is its bug.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.usefixtures("is_short")
@pytest.mark.parametrize("case", in_tiers(BAD))
def test_the_bug_of_a_shop_is_found_with_its_rule_and_its_cause(case: Case, paymock: Sandbox) -> None:
    report = judge(case, paymock)
    assert report.verdict == case.verdict, str(report)
    found = {rule: finding.faults for finding in report.findings for rule in (finding.rule, *finding.also)}
    assert case.rules <= found.keys(), str(report)
    if case.verdict == "UNSAFE" and "free_goods" not in case.rules and not case.causes:
        assert all(found[rule] for rule in case.rules) == (case.name not in WITHOUT_FAULTS), str(report)


@pytest.mark.nightly
@pytest.mark.parametrize(("name", "verdict"), [("Queued", "SAFE"), ("QueuedThreeTimes", "UNSAFE")])
def test_the_retries_of_a_queue_are_waited_for(name: str, verdict: str, paymock: Sandbox) -> None:
    shop: type[base.Shop] = getattr(import_module("tests.verify.shops.queued"), name)
    report = judged(paymock, shop, faults=None, settle=SETTLE_SECONDS)
    assert report.verdict == verdict, str(report)
    assert {one.rule for one in report.findings} >= ({"lost_sale"} if verdict == "UNSAFE" else set())


def judged_by_command(*arguments: str, **variables: str) -> dict[str, Any]:
    """The report of `paymock verify`, whose exit status fits it."""
    command = [*PAYMOCK, "verify", "--json", *arguments]
    done = subprocess.run(
        command, env=environment(**variables), capture_output=True, text=True, timeout=400, check=False
    )
    assert done.stdout, done.stderr
    report: dict[str, Any] = json.loads(done.stdout)
    assert done.returncode == {"SAFE": 0, "UNSAFE": 1, "UNDETERMINED": 3}[report["verdict"]]
    return report


def of_served(url: str, start: str) -> list[str]:
    return [
        *("--run", start, "--ready", f"{url}/health", "--order", f"POST {url}/orders/{{order_id}}"),
        *("--deliveries", f"GET {url}/deliveries/{{order_id}}"),
    ]


def check_served(case: Case) -> None:
    """Judge a shop in processes of its own. One fault is enough where it is not what finds the bug."""
    serve = shlex.join([sys.executable, "-m", "tests.verify.shops.serve", case.name])
    arguments = of_served(
        "http://127.0.0.1:{port}", f"cd {shlex.quote(str(ROOT))} && exec {serve} --port {{port}}"
    )
    shortened = ("--fault", "drop", "--settle", "5") if case.options else ()
    scenarios = [f"--scenario={name}" for name in case.scenarios or ()]
    report = judged_by_command(*arguments, *scenarios, *case.options, *shortened)
    broken = {rule for rule, verdict in report["rules"].items() if verdict == "broken"}
    assert report["verdict"] == case.verdict, report
    assert case.rules <= broken if case.rules else not broken, report


@pytest.mark.parametrize("case", in_tiers(SHOPS.values(), served=True))
def test_a_served_shop_is_judged_as_it_deserves(case: Case) -> None:
    check_served(case)


@pytest.mark.nightly
@pytest.mark.parametrize("name", CLASSES)
def test_the_verdict_is_the_same_every_time_while_the_machine_is_busy(name: str) -> None:
    busy = [subprocess.Popen([sys.executable, "-c", "while True: pass"]) for _ in range(2)]
    try:
        for _ in range(10):
            check_served(SHOPS[name])
    finally:
        for process in busy:
            process.kill()
            process.wait()


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
    report = judged_by_command(
        *of_served(url, f"cd {shlex.quote(str(FOLDER / FOLDERS.get(group, group)))} && exec {start}"),
        *(("--tick", f"GET {url}/tick") if case.tick else ()),
        *("--scenario", "happy_path", "--scenario", "settlement_failed"),
        *("--fault", "drop", "--fault", "status=500", "--fault", "truncate=20"),
        PATH=os.environ["PATH"],
        PORT=str(port),
        STATE=str(tmp_path / "state"),
    )
    rules = {rule for rule, verdict in report["rules"].items() if verdict == "broken"}
    assert report["verdict"] == ("SAFE" if kind == "right" else "UNSAFE"), report
    assert case.rule in rules if kind == "wrong" else not rules, report
