"""The fault rules at `/requests`: added, watched and deleted while the requests of an application fail."""

import contextlib

import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.support.client import order
from tests.support.contract import Json
from tests.web.pages.steps import Sandbox, Tab, press

LOST = {"fault": "drop", "operation": "createPayment"}
FAILING = {"fault": "status=503", "operation": "getPayment", "skip": 1, "times": None}


def rules(api: Sandbox) -> list[Json]:
    """The rules of the sandbox, without their ids."""
    found = api.get("/_mock/faults").json()["data"]
    return [{name: value for name, value in rule.items() if name != "id"} for rule in found]


def dialog_of(tab: Tab) -> Locator:
    return tab.page.get_by_role("dialog", name="New fault rule")


def opened(tab: Tab) -> Locator:
    """The dialog that adds a rule."""
    tab.open("/requests").button("Add a rule…").click()
    return dialog_of(tab)


def test_rule_is_added_with_the_keyboard_and_hurts_the_next_client(tab: Tab, api: Sandbox) -> None:
    keyboard = tab.page.keyboard
    tab.open("/requests")
    expect(tab.page.get_by_text("A rule makes requests of your application fail")).to_be_visible()
    press(tab, tab.button("Add a rule…"))
    dialog = dialog_of(tab)
    press(tab, dialog.get_by_role("radio", name="status=503"), "ArrowRight")
    expect(dialog.get_by_label("Fault", exact=True)).to_have_value("delay=1500")
    keyboard.press("ArrowRight")
    press(tab, dialog.get_by_label("Fault", exact=True), "End")
    expect(dialog.get_by_label("Fault", exact=True)).to_have_value("drop")
    keyboard.type("; before")
    press(tab, dialog.get_by_label("Operation"), key="")
    keyboard.type("create")
    press(tab, dialog.get_by_label("Order id"), key="")
    keyboard.type("order-1")
    press(tab, dialog.get_by_label("Apply so many times"), "Control+A")
    keyboard.type("2")
    keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(tab.button("Add a rule…")).to_be_focused()
    expect(tab.rules()).to_contain_text(["drop; before"])
    expect(tab.rules()).to_contain_text(["createPayment"])
    expect(tab.rules()).to_contain_text(["order-1"])
    tab.announced("Fault rule added")
    with pytest.raises(httpx.RemoteProtocolError):
        api.create(order(order_id="order-1"))
    expect(tab.rules()).to_contain_text(["1 of 2"])
    assert api.payments() == []


@pytest.mark.parametrize(
    ("fields", "rule"),
    [
        ({}, {}),
        (
            {"Fault": "status=502; after; html", "Skip so many requests first": "3"},
            {"fault": "status=502; after; html", "skip": 3},
        ),
        ({"Until the rule is deleted": "yes"}, {"times": None}),
    ],
)
def test_fields_become_the_rule(tab: Tab, api: Sandbox, fields: dict[str, str], rule: Json) -> None:
    dialog = opened(tab)
    for label, text in fields.items():
        field = dialog.get_by_label(label, exact=True)
        field.check() if text == "yes" else field.fill(text)
    dialog.get_by_role("button", name="Add").click()
    expect(tab.rules()).to_have_count(1)
    defaults = {"fault": "status=503", "operation": None, "order_id": None, "payment_id": None, "skip": 0}
    assert rules(api) == [{**defaults, "times": 1, "seen": 0, "applied": 0, **rule}]


def test_kind_follows_the_fault_that_is_typed(tab: Tab) -> None:
    dialog = opened(tab)
    for text, kind in (("truncate=5", "truncate"), ("reset; before", "reset"), ("status=429", "status")):
        dialog.get_by_label("Fault", exact=True).fill(text)
        expect(dialog.get_by_role("radio", name=kind)).to_be_checked()
    dialog.get_by_label("Fault", exact=True).fill("boom")
    expect(dialog.get_by_role("radio", checked=True)).to_have_count(0)


def test_what_the_server_refuses_is_said_at_the_field(tab: Tab, api: Sandbox) -> None:
    dialog = opened(tab)
    fault, payment = dialog.get_by_label("Fault", exact=True), dialog.get_by_label("Payment id")
    operation = dialog.get_by_label("Operation")
    fault.fill("boom")
    payment.fill("pay_1")
    dialog.get_by_role("button", name="Add").click()
    expect(fault).to_be_focused()
    for field, reason in ((fault, "must be status=CODE"), (payment, "must be the id of a payment")):
        expect(field).to_have_attribute("aria-invalid", "true")
        place = field.get_attribute("aria-describedby")
        expect(dialog.locator(f"#{place}")).to_contain_text(reason)
    expect(operation).to_have_attribute("aria-invalid", "false")
    fault.fill("drop")
    payment.fill("")
    operation.select_option("listChains")
    dialog.get_by_label("Order id").fill("order-1")
    dialog.get_by_role("button", name="Add").click()
    expect(operation).to_be_focused()
    expect(dialog.get_by_text("must be about a payment for this rule")).to_be_visible()
    expect(dialog.get_by_text("must be status=CODE")).to_have_count(0)
    dialog.get_by_label("Order id").fill("")
    dialog.get_by_role("button", name="Add").click()
    expect(tab.rules()).to_contain_text(["listChains"])
    tab.forgive("422")


def test_what_is_wrong_with_no_field_is_said_above_them(tab: Tab, api: Sandbox) -> None:
    for _ in range(100):
        api.post("/_mock/faults", json=LOST)
    dialog = opened(tab)
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("100 fault rules already")
    dialog.get_by_role("button", name="Cancel").click()
    tab.button("Add a rule…").click()
    expect(dialog.get_by_role("alert")).to_be_hidden()
    assert len(rules(api)) == 100
    tab.forgive(str(api.post("/_mock/faults", json=LOST).status_code))


def test_counts_follow_the_requests_of_another_client(tab: Tab, api: Sandbox) -> None:
    payment = api.created()
    for rule in (FAILING, {"fault": "status=500", "operation": "getPayment"}):
        api.post("/_mock/faults", json=rule)
    tab.open("/requests").keep()
    first, second = tab.rules().first, tab.rules().last
    expect(first).to_contain_text("0, until deleted")
    expect(second).to_contain_text("0 of 1")
    path = f"/v1/payments/{payment['id']}"
    assert [api.get(path).status_code for _ in range(3)] == [500, 503, 503]
    expect(first.get_by_role("cell")).to_contain_text(["503", "getPayment", "1", "3", "2, until deleted"])
    expect(second.get_by_role("cell")).to_contain_text(["500", "getPayment", "0", "3", "1 of 1 (used up)"])
    assert tab.kept()


def test_rules_are_deleted_one_by_one_or_all_at_once(tab: Tab, api: Sandbox) -> None:
    for fault in ("drop", "reset", "hang", "truncate=1", "status=500"):
        api.post("/_mock/faults", json={"fault": fault})
    tab.open("/requests")
    press(tab, tab.button("Delete rule 2, reset"))
    expect(tab.rules()).to_contain_text(["drop", "hang", "truncate=1", "status=500"])
    expect(tab.button("Delete rule 2, hang")).to_be_focused()
    press(tab, tab.button("Delete rule 4, status=500"), "Space")
    expect(tab.rules()).to_contain_text(["drop", "hang", "truncate=1"])
    expect(tab.button("Delete rule 3, truncate=1")).to_be_focused()
    tab.announced("Deleted")
    tab.button("Delete all rules").click()
    expect(tab.rules()).to_have_count(0)
    expect(tab.button("Add a rule…")).to_be_focused()
    expect(tab.button("Delete all rules")).to_be_hidden()
    assert rules(api) == []


def test_journal_below_shows_what_a_rule_did(tab: Tab, api: Sandbox) -> None:
    api.post("/_mock/faults", json=LOST)
    tab.open("/requests")
    with contextlib.suppress(httpx.RemoteProtocolError):
        api.create(order(order_id="order-1"), key="the-same-key")
    api.create(order(order_id="order-1"), key="the-same-key")
    expect(tab.rules()).to_contain_text(["1 of 1 (used up)"])
    expect(tab.rows()).to_contain_text(["201 (replayed)", "no reply (new) fault: drop"])
