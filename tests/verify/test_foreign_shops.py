"""Shops in other languages, judged by the command."""

import json
import os
import shlex
import socket
import subprocess
import sys
from pathlib import Path
from typing import NamedTuple

import pytest

from harness.server_process import environment

SHOPS = Path(__file__).parent / "shops"


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
        *("--run", f"cd {shlex.quote(str(SHOPS / FOLDERS.get(group, group)))} && exec {start}"),
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
