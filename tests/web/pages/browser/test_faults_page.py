import re

import httpx
import pytest
from playwright.sync_api import expect

from tests.support.client import order
from tests.web.pages.browser.steps import Tab, press
from tests.web.pages.sandbox import Sandbox


def test_preset_text_and_switch_of_a_fault_agree(tab: Tab) -> None:
    presets = tab.open("/faults").page.get_by_role("group", name="What happens")
    fault, switch = tab.page.locator("#fault"), tab.page.get_by_label("After the effect")
    for text, preset, carried_out, otherwise in (
        ("status=503", "503 error", False, "status=503; after"),
        ("status=502 ;after; html", "Gateway page", True, "status=502; html"),
        ("200", "False success", False, "status=200; after; html"),
        ("delay=9", "Slow", False, "delay=9; after"),
        ("drop; times=2", "Reply lost", True, "drop; before; times=2"),
        ("drop;before", "Refused", False, "drop"),
        ("truncate=5", "Cut off", True, None),
        ("hang; before", "No answer", False, "hang"),
        ("reset", None, True, "reset; before"),
        ("status=429;retry-after=date", "Told to wait", False, "status=429; after;retry-after=date"),
        ("extra=status", "New status", True, None),
    ):
        fault.fill(text)
        expect(presets.get_by_role("radio", name=preset, checked=True)).to_have_count(1 if preset else 0)
        expect(switch).to_be_checked(checked=carried_out)
        expect(switch).to_be_enabled(enabled=otherwise is not None)
        if otherwise:
            switch.click()
            expect(fault).to_have_value(otherwise)


def test_rules_are_added_with_the_keyboard_hurt_a_client_and_are_deleted(tab: Tab, api: Sandbox) -> None:
    keyboard, form = tab.page.keyboard, tab.open("/faults").page.get_by_role("form")
    press(tab, form.get_by_role("radio", name="503 error"), "ArrowDown")
    expect(form.get_by_role("radio", name="Gateway page")).to_be_focused()
    rule = {"fault": "drop; before", "operation": "create", "order_id": "order-1", "skip": "1", "times": "2"}
    for name, text in rule.items():
        press(tab, form.locator(f"[name={name}]"), "Control+A")
        keyboard.type(text)
    keyboard.press("Enter")
    tab.announced("Added")
    expect(tab.rows()).to_contain_text(["0 of 2"])
    api.create(order(order_id="order-1"))
    with pytest.raises(httpx.RemoteProtocolError):
        api.create(order(order_id="order-1"))
    expect(tab.rows()).to_contain_text(
        ["drop; before Refused createPayment Order order-1"], use_inner_text=True
    )
    form.get_by_label("Until").check()
    for fault, name in (("hang", "No answer "), ("reset", "")):
        form.locator("#fault").fill(fault)
        tab.button("Add").click()
        expect(tab.rows().last).to_contain_text(f"{fault} {name}createPayment", use_inner_text=True)
    expect(tab.rows()).to_contain_text(["1 of 2", "0 applied, until deleted", "0 applied, until deleted"])
    press(tab, tab.button("Delete rule 2, hang"))
    expect(tab.button("Delete rule 2, reset")).to_be_focused()
    tab.announced("Deleted")
    tab.button("Delete all rules").click()
    expect(tab.button("Add")).to_be_focused()
    assert api.get("/_mock/faults").json() == {"data": []}


def test_next_payments_are_queued_and_what_is_refused_is_said_at_its_field(tab: Tab, api: Sandbox) -> None:
    form, pending = tab.open("/faults").page.get_by_role("form"), tab.page.locator("#pending")
    fault, payment, scenario = (form.locator(f"#{name}") for name in ("fault", "payment", "scenario"))
    fault.fill("boom")
    payment.fill("pay_1")
    tab.button("Add").click()
    for field, reason in ((payment, "must be the id of a payment"), (fault, "must be status=CODE")):
        expect(field).to_have_accessible_description(re.compile(reason, re.IGNORECASE))
        expect(field).to_have_attribute("aria-invalid", "true")
    expect(fault).to_be_focused()
    form.get_by_role("radio", name="Next payments").check()
    expect(form.locator("[aria-invalid=true]")).to_have_count(0)
    expect(fault).to_be_hidden()
    scenario.select_option("settlement_failed")
    form.get_by_label("Order id begins with").fill("order-")
    form.get_by_role("spinbutton", name="Number of payments").fill("2")
    tab.button("Add").click()
    expect(pending.get_by_role("listitem")).to_have_text(["2 payments of orders order-…: settlement_failed"])
    api.create()
    expect(pending.get_by_role("listitem")).to_have_text(["1 payment of orders order-…: settlement_failed"])
    assert [payment["scenario"] for payment in api.payments()] == ["settlement_failed"]
    tab.button("Clear the queue").click()
    expect(pending).to_contain_text("The queue is empty.")
    expect(tab.button("Add")).to_be_focused()
    tab.forgive("422")
