"""Pages that stay open: what they are told, and what they do when nobody tells them anything."""

from pathlib import Path

from playwright.sync_api import expect

from harness.polling import wait_until
from harness.server_process import server_process
from tests.support.contract import Contract
from tests.support.server import RunningServer
from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.steps import Tab, checkout_page
from tests.web.pages.sandbox import Sandbox

LOST = "Connection lost"
SHOWN = {
    "/": ("#list tbody", "order-1001", "completed"),
    "/payments/{}": ("#head", "order-1001", "completed"),
    "/requests": ("#requests tbody", "POST /v1/payments", "GET /v1/payments/pay_"),
    "/checkout/{}": ("body", "sends its own transfer", "Payment complete."),
}
"""The pages; where each shows what it was opened for, in which words, and in which when that has changed."""


def lose_server(tabs: list[Tab]) -> None:
    """The server of the pages, whose time is stopped, is gone. They try to reach it, in vain."""
    for tab in tabs:
        expect(tab.connection).to_contain_text(LOST)
        with tab.page.expect_event("requestfailed"):
            tab.pass_time(4)
        expect(tab.connection).to_contain_text(LOST)


def test_pages_ask_for_nothing_while_nothing_happens_and_outlive_a_restart_of_the_server(
    new_tab: NewTab, contract: Contract, tmp_path: Path
) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/store.db")
    with server_process(tmp_path, *store) as server, Sandbox(server.url, contract) as api:
        api.speed(0)
        payment = api.created("happy_path")
        tabs = [new_tab(api.api_key, server.url) for _ in SHOWN]
        tabs[0].stop_time()  # in all of them
        for tab, (path, (place, words, _)) in zip(tabs, SHOWN.items(), strict=True):
            with tab.page.expect_response("**/events*"):
                tab.open(path.format(payment["id"])).keep()
            expect(tab.page.locator(place)).to_contain_text(words)
        before = [[*tab.requested] for tab in tabs]
        tabs[0].pass_time(30)
        assert [tab.requested for tab in tabs] == before
    lose_server(tabs)
    (tmp_path / "ready.json").unlink()
    again = server_process(tmp_path, "--port", str(server.port), *store)
    with again, Sandbox(server.url, contract, api.api_key) as api:
        api.advance(45)
        for tab in tabs:
            tab.pass_time(4)
            expect(tab.connection).not_to_contain_text(LOST)
        api.payment(payment["id"])
        for tab, (place, _, words) in zip(tabs, SHOWN.values(), strict=True):
            expect(tab.page.locator(place)).to_contain_text(words)
            assert tab.kept()
            tab.forgive("net::ERR")
            tab.leave()


def test_pages_say_that_the_memory_of_a_restarted_server_started_empty(
    new_tab: NewTab, contract: Contract, tmp_path: Path
) -> None:
    with server_process(tmp_path) as server, Sandbox(server.url, contract) as api:
        customer, dashboard = new_tab(origin=server.url), new_tab(api.api_key, server.url)
        customer.stop_time()  # in both
        checkout_page(customer, api.created()).keep()
        expect(dashboard.open().orders()).to_have_text(["order-1001"])
    lose_server([customer, dashboard])
    (tmp_path / "ready.json").unlink()
    with server_process(tmp_path, "--port", str(server.port)):
        customer.pass_time(4)
        said = "The server was restarted. Its store in memory started empty: what was here before is gone."
        expect(dashboard.page.get_by_text(said)).to_be_visible()
        expect(dashboard.page.get_by_role("heading", name="No payments yet")).to_be_visible()
        customer.announced("There is no such payment")
        expect(customer.headline).to_have_text("There is no such payment")
        expect(customer.page).to_have_title("There is no such payment · paymock")
        expect(customer.page.locator("#payment")).to_contain_text("its store in memory starts empty.")
        expect(customer.page.get_by_text("Copy address")).to_have_count(0)
        asked = len(customer.requested)
        customer.pass_time(60)
        assert len(customer.requested) == asked
        assert customer.kept()
        customer.forgive("net::ERR", "404")
        dashboard.forgive("net::ERR")
        customer.leave()
        dashboard.leave()


def test_hidden_page_has_no_connection(tab: Tab, api: Sandbox, server: RunningServer) -> None:
    tab.stop_time()
    before = server.app.notifier.waiting
    tab.open()
    wait_until(lambda: server.app.notifier.waiting == before + 1)
    tab.hide()
    tab.pass_time(4)
    tab.hide(hidden=False)
    tab.pass_time(4)
    assert server.app.notifier.waiting == before + 1  # a short absence is none
    tab.hide()
    tab.pass_time(5)
    wait_until(lambda: server.app.notifier.waiting == before)
    api.created(order_id="order-1")
    tab.hide(hidden=False)
    expect(tab.orders()).to_have_text(["order-1"])
    wait_until(lambda: server.app.notifier.waiting == before + 1)
