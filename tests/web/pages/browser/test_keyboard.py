"""The pages without a mouse: what can be done can be reached, is seen to be reached, and stays reached."""

from playwright.sync_api import expect

from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.steps import Tab, press
from tests.web.pages.sandbox import Sandbox


def test_dashboard_is_used_from_the_key_to_the_end_of_a_payment(new_tab: NewTab, api: Sandbox) -> None:
    tab = new_tab().open()
    keyboard = tab.page.keyboard
    press(tab, tab.page.locator("#sandbox"))
    expect(tab.page.get_by_label("API key")).to_be_focused()
    keyboard.type(api.api_key)
    keyboard.press("Enter")
    expect(tab.live).to_have_text("Live")
    everything = new_tab(api.api_key).open()
    everything.keep()
    keyboard.press("n")
    dialog = tab.page.get_by_role("dialog", name="New payment")
    press(tab, dialog.get_by_role("radio", name="happy_path"), "ArrowRight")
    expect(dialog.get_by_role("radio", name="no_payment_expired")).to_be_checked()
    press(tab, dialog.get_by_label("Order id"), "Control+A")
    keyboard.type("typed-order")
    press(tab, dialog.get_by_label("Amount"), "Control+A")
    keyboard.type("12.5")
    keyboard.press("Enter")
    expect(tab.headline).to_have_text("typed-order")
    expect(tab.page.get_by_role("main")).to_be_focused()
    expect(everything.rows()).to_contain_text(["typed-order"])
    assert api.payments()[0]["receive"]["amount"] == "12500000000000000000"
    tab.keep()
    press(tab, tab.button("Half"))
    expect(tab.status).to_have_text("payment_detected")
    expect(tab.button("Half")).to_be_focused()
    keyboard.press("Shift+Tab")
    keyboard.press("Space")
    expect(tab.page.locator("#reasons")).to_contain_text("Pay: the whole amount has arrived.")
    press(tab, tab.button("Next step"))
    expect(tab.page.locator("#table tr:not(.dim)").last).to_contain_text("Confirmations 4/16")
    tab.announced("Now payment_detected")
    keyboard.press("Enter")
    expect(tab.page.locator("#table tr:not(.dim)").last).to_contain_text("Confirmations 8/16")
    press(tab, tab.button("+5 s"))
    expect(tab.page.locator("#own-now")).to_have_text("2030-01-31 12:00:09 UTC")
    expect(tab.page.locator("#ahead")).to_have_text("9 s ahead of the sandbox")
    expect(tab.page.locator("#now")).to_have_text("2030-01-31 12:00:00 UTC")
    press(tab, tab.button("To the end"), "Space")
    expect(tab.status).to_have_text("completed")
    tab.announced("Now completed")
    expect(everything.rows()).to_contain_text(["completed"])
    assert tab.kept()
    assert everything.kept()
    expect(tab.button("To the end")).to_have_attribute("aria-disabled", "true")
    expect(tab.button("To the end")).to_be_focused()
    keyboard.press("Enter")  # impossible: it says why, and asks for nothing
    tab.announced("no changes remain")
    assert len([url for url in tab.requested if url.endswith("/advance")]) == 4
    slider, shown = tab.page.get_by_label("Read at"), tab.page.locator("#json")
    press(tab, slider, "Home")
    tab.announced("0 s: payment_detected")
    expect(shown).to_contain_text('"status": "payment_detected"')
    expect(tab.status).to_have_text("completed")
    slider.press("Shift+Tab")
    keyboard.press("Enter")
    expect(shown).to_contain_text('"status": "completed"')
    press(tab, tab.page.get_by_text("Show as a table"), "Space")
    expect(tab.page.get_by_role("region", name="Timeline, as a table")).to_be_visible()


def test_list_is_skipped_to_and_gone_through_and_searched_by_shortcuts(tab: Tab, api: Sandbox) -> None:
    for number in range(60):
        api.created(order_id=f"order-{number}")
    keyboard, orders = tab.open().page.keyboard, tab.orders()
    search = tab.page.get_by_label("Order, id, address or hash")
    expect(orders).to_have_count(60)
    press(tab, tab.page.get_by_role("link", name="Skip to the content"), most=2)
    expect(tab.page.get_by_role("main")).to_be_focused()
    press(tab, search, key="", most=2)
    tab.page.get_by_role("main").focus()
    for key, row in [("j", 0), ("j", 1), ("k", 0), ("k", 0), *(("j", row) for row in range(1, 60))]:
        keyboard.press(key)
        expect(orders.nth(row)).to_be_focused()
    for _ in range(40):
        keyboard.press("k")
    edge = "([focused, heads]) => focused.getBoundingClientRect().top - heads.getBoundingClientRect().bottom"
    places = [tab.page.locator(place).element_handle() for place in ("#list a:focus", "#list thead")]
    assert tab.page.evaluate(edge, places) >= 0  # it is not behind what stays in view
    keyboard.press("Enter")
    expect(tab.status).to_be_visible()
    keyboard.press("?")
    expect(tab.page.get_by_role("dialog", name="Shortcuts")).to_be_visible()
    keyboard.press("Escape")
    tab.page.go_back()
    expect(orders.nth(19)).to_be_focused()
    keyboard.press("/")
    expect(search).to_be_focused()
    keyboard.type("jnk/")
    expect(search).to_have_value("jnk/")


def test_focus_stays_where_it_is_while_a_page_renews_what_it_shows(tab: Tab, api: Sandbox) -> None:
    payment = api.created("happy_path", order_id="order-1")
    tab.open("/?status=awaiting_payment").orders().focus()
    api.created(order_id="order-2")
    expect(tab.orders()).to_have_text(["order-2", "order-1"])
    expect(tab.orders().last).to_be_focused()
    api.advance(5)
    expect(tab.orders()).to_have_count(0)
    expect(tab.page.get_by_role("main")).to_be_focused()
    tab.open(f"/payments/{payment['id']}")
    for times, name in (("7", "Copy id"), ("7 to 9", "Copy as curl"), ("7 to 11", "Next step")):
        tab.button(name).last.focus()
        api.move(payment, to="next")
        api.payment(payment["id"])
        expect(tab.rows()).to_contain_text([f"at {times} s", "at 0 s"])
        expect(tab.button(name).last).to_be_focused()
