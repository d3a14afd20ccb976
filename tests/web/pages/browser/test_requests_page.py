import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.support.client import order
from tests.support.contract import Json
from tests.web.pages.browser.steps import Tab, press
from tests.web.pages.sandbox import Sandbox


def rules(api: Sandbox) -> list[Json]:
    found: list[Json] = api.get("/_mock/faults").json()["data"]
    return found


def opened(tab: Tab) -> Locator:
    tab.open("/requests").button("Add a rule…").click()
    return tab.page.get_by_role("dialog", name="New fault rule")


def test_requests_appear_as_they_come_and_are_filtered_and_cleared(tab: Tab, api: Sandbox) -> None:
    tab.open("/requests").keep()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    payment = api.created(order_id="order-1")
    api.get("/v1/chains", headers={"X-Mock-Fault": "status=503"})
    expect(tab.rows()).to_contain_text(["/v1/chains", "201 (new)"])
    tab.button("Copy as curl").first.click()
    tab.announced("Copied")
    assert tab.copied().startswith(f"curl -sS -X GET '{tab.origin}/v1/chains'")
    tab.page.get_by_label("Only errors and faults").check()
    expect(tab.rows()).to_have_count(1)
    expect(tab.rows()).to_contain_text("503 injected_fault")
    api.payment(payment["id"])
    api.get("/v1/payments/nope")
    expect(tab.rows()).to_contain_text(["404 payment_not_found", "503 injected_fault"])
    expect(tab.rows()).to_have_count(2)
    tab.page.get_by_label("Only errors and faults").uncheck()
    expect(tab.rows()).to_have_count(4)
    tab.button("Clear the journal").click()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    assert api.get("/_mock/requests").json()["data"] == []
    assert len(api.payments()) == 1
    assert tab.kept()


def test_rule_is_added_with_the_keyboard_and_hurts_the_next_client(tab: Tab, api: Sandbox) -> None:
    keyboard = tab.page.keyboard
    tab.open("/requests")
    expect(tab.page.get_by_text("A rule makes requests of your application fail")).to_be_visible()
    press(tab, tab.button("Add a rule…"))
    dialog = tab.page.get_by_role("dialog", name="New fault rule")
    fault = dialog.get_by_label("Fault", exact=True)
    for text, kind in (("truncate=5", "truncate"), ("reset; before", "reset"), ("status=429", "status")):
        fault.fill(text)
        expect(dialog.get_by_role("radio", name=kind)).to_be_checked()
    press(tab, dialog.get_by_role("radio", name="status=503"), "ArrowRight")
    expect(fault).to_have_value("delay=1500")
    keyboard.press("ArrowRight")
    press(tab, fault, "End")
    expect(fault).to_have_value("drop")
    keyboard.type("; before")
    press(tab, dialog.get_by_label("Operation"), key="")
    keyboard.type("create")
    for label, text in (
        ("Order id", "order-1"),
        ("Apply so many times", "2"),
        ("Skip so many requests first", "1"),
    ):
        press(tab, dialog.get_by_label(label), "Control+A")
        keyboard.type(text)
    keyboard.press("Enter")
    expect(dialog).to_be_hidden()
    expect(tab.button("Add a rule…")).to_be_focused()
    tab.announced("Fault rule added")
    api.create(order(order_id="order-1"))
    with pytest.raises(httpx.RemoteProtocolError):
        api.create(order(order_id="order-1"))
    expect(tab.rules()).to_contain_text(["drop; before createPayment Order order-1"], use_inner_text=True)
    expect(tab.rules()).to_contain_text(["1 of 2"])
    expect(tab.rows()).to_contain_text(["no reply", "201"])
    assert len(api.payments()) == 1
    press(tab, tab.button("Add a rule…"))
    dialog.get_by_label("Until the rule is deleted").check()
    expect(dialog.get_by_label("Apply so many times")).to_be_disabled()
    keyboard.press("Enter")
    expect(tab.rules()).to_have_count(2)
    assert [rule["times"] for rule in rules(api)] == [2, None]


def test_what_the_server_refuses_is_said_at_the_field_or_above_all(tab: Tab, api: Sandbox) -> None:
    dialog = opened(tab)
    fault, payment = dialog.get_by_label("Fault", exact=True), dialog.get_by_label("Payment id")
    operation = dialog.get_by_label("Operation")
    fault.fill("boom")
    payment.fill("pay_1")
    dialog.get_by_role("button", name="Add").click()
    expect(fault).to_be_focused()
    for field, reason in ((fault, "must be status=CODE"), (payment, "must be the id of a payment")):
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(dialog.locator(f"#{field.get_attribute('aria-describedby')}")).to_contain_text(reason)
    expect(operation).to_have_attribute("aria-invalid", "false")
    fault.fill("drop")
    payment.fill("")
    operation.select_option("listChains")
    dialog.get_by_label("Order id").fill("order-1")
    dialog.get_by_role("button", name="Add").click()
    expect(operation).to_be_focused()
    expect(dialog.get_by_text("must be about a payment for this rule")).to_be_visible()
    expect(dialog.get_by_text("must be status=CODE")).to_have_count(0)
    for _ in range(100):
        api.post("/_mock/faults", json={"fault": "drop"})
    operation.select_option("")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_role("alert")).to_contain_text("100 fault rules already")
    dialog.get_by_role("button", name="Cancel").click()
    tab.button("Add a rule…").click()
    expect(dialog.get_by_role("alert")).to_be_hidden()
    tab.forgive("422", "503")


def test_rules_are_deleted_one_by_one_or_all_at_once(tab: Tab, api: Sandbox) -> None:
    for fault in ("drop", "reset", "hang", "status=500"):
        api.post("/_mock/faults", json={"fault": fault})
    tab.open("/requests")
    press(tab, tab.button("Delete rule 2, reset"))
    expect(tab.rules()).to_contain_text(["drop", "hang", "status=500"])
    expect(tab.button("Delete rule 2, hang")).to_be_focused()
    press(tab, tab.button("Delete rule 3, status=500"), "Space")
    expect(tab.rules()).to_contain_text(["drop", "hang"])
    expect(tab.button("Delete rule 2, hang")).to_be_focused()
    tab.announced("Deleted")
    tab.button("Delete all rules").click()
    expect(tab.rules()).to_have_count(0)
    expect(tab.button("Add a rule…")).to_be_focused()
    assert rules(api) == []
