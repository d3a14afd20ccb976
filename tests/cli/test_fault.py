"""`fault` and `next`."""

import json
import re

import pytest

from tests.cli.terminal import Terminal
from tests.support.client import Api

RULE = "flt_[0-9a-f]{32}"


def test_rules_are_added_listed_and_deleted(terminal: Terminal, api: Api) -> None:
    assert terminal.note("fault", "list") == "no fault rules\n"
    first = terminal.text("fault", "add", "drop")
    header, row = first.splitlines()
    assert header.split() == ["TIMES", "FAULT", "SKIP", "SEEN", "APPLIED", "WAITING", "ID"]
    assert re.fullmatch(f"once +drop +0 +0 +0 +0 +{RULE}", row)
    second = terminal.json("fault", "add", "status=503; after", "--operation", "listChains", "--always")
    third = terminal.text("fault", "add", "hang", "--skip", "2", "--times", "3")
    assert re.fullmatch(f"3 times +hang +2 +0 +0 +0 +{RULE}", third.splitlines()[1])
    assert terminal.json("fault", "list") == api.get("/_mock/faults").json()
    assert terminal.json("fault", "delete", first.split()[-1], third.split()[-1]) == {"data": [second]}
    assert api.get("/v1/chains").status_code == 503
    assert re.fullmatch(
        f"always +status=503; after +listChains +0 +1 +1 +0 +{RULE}",
        terminal.text("fault", "list").splitlines()[1],
    )
    assert terminal.note("fault", "clear") == "no fault rules\n"
    assert api.get("/v1/chains").status_code == 200
    assert terminal.json("fault", "clear") == {"data": []}


def test_a_rule_is_about_an_order_or_a_payment(terminal: Terminal, api: Api) -> None:
    payment = api.created()
    for options, words in (
        (["--order", "order-1001"], "order-1001"),
        (["--payment", payment["id"]], payment["id"]),
        (["--payment", "newest"], payment["id"]),
        (["--order", "\u202eorder"], r"\\u202eorder"),
    ):
        shown = terminal.text("fault", "add", "drop", *options)
        assert re.fullmatch(f"once +drop +{words} +0 +0 +0 +0 +{RULE}", shown.splitlines()[1])
    first, *others, _ = terminal.json("fault", "list")["data"]
    assert (first["order_id"], first["payment_id"]) == ("order-1001", None)
    assert {(rule["order_id"], rule["payment_id"]) for rule in others} == {(None, payment["id"])}


@pytest.mark.parametrize("position", [0, 1, 3])
def test_common_options_stand_anywhere(unconnected: Terminal, terminal: Terminal, position: int) -> None:
    words = ["fault", "add", "drop"]
    key = terminal.variables["PAYMOCK_API_KEY"]
    words[position:position] = ["--url", terminal.url, "--key", key, "--json"]
    assert json.loads(unconnected.text(*words))["fault"] == "drop"
    assert len(terminal.json("fault", "list")["data"]) == 1


def test_next_sets_and_clears_overrides(terminal: Terminal, api: Api) -> None:
    assert terminal.note("next") == "nothing is pending\n"
    assert terminal.text("next", "late_payment") == "once        late_payment\n"
    assert terminal.text("next", "--fault", "status=503", "--times", "3").splitlines() == [
        "once        late_payment",
        "3 times     status=503",
    ]
    pending = terminal.json("next", "overpaid_review", "--always")
    assert pending == terminal.json("next") == api.get("/_mock/next").json()
    assert terminal.text("next").splitlines()[1] == "always      overpaid_review"
    assert api.create().status_code == 503
    assert terminal.note("next", "--clear") == "nothing is pending\n"
    assert api.create().status_code == 201
    assert terminal.json("next", "--clear") == {"data": []}
