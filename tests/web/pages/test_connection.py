"""Pages that stay open: what they are told, and what they do when nobody tells them anything."""

import signal
from contextlib import AbstractContextManager
from pathlib import Path

import httpx
from playwright.sync_api import Locator, expect

from harness.polling import wait_until
from harness.server_process import ServerProcess, server_process
from paymock.settings import Settings
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, Tab, checkout_page

LOST = "Connection lost"
QUIET_SECONDS = 3
SHOWN = {
    "/": ("#list tbody", "order-1001", "completed"),
    "/payments/{}": ("#head", "order-1001", "completed"),
    "/requests": ("#requests tbody", "POST /v1/payments", "GET /v1/payments/pay_"),
    "/checkout/{}": ("main", "order-1001", "Paid"),
}
"""The pages; where each shows what it was opened for, in which words, and in which when that has changed."""


def all_pages(
    new_tab: NewTab, api: Sandbox, payment: Json, origin: str | None = None, *, stopped: bool = False
) -> list[Tab]:
    """Each page in a tab of its own, showing the payment. Time is stopped there, or passes."""
    tabs = []
    for path, (place, words, _) in SHOWN.items():
        tabs.append(tab := new_tab(api.api_key, origin))
        if stopped:
            tab.stop_time()
        with tab.page.expect_response("**/events*"):
            tab.open(path.format(payment["id"]))
        expect(tab.page.locator(place)).to_contain_text(words)
    return tabs


def test_tabs_with_two_keys_do_not_see_each_others_payments(
    new_tab: NewTab, server: RunningServer, contract: Contract
) -> None:
    with Sandbox(server.url, contract) as one, Sandbox(server.url, contract) as other:
        first, second = new_tab(one.api_key).open(), new_tab(other.api_key).open()
        one.created(order_id="of-one")
        expect(first.orders()).to_have_text(["of-one"])
        other.created(order_id="of-other")
        expect(second.orders()).to_have_text(["of-other"])
        expect(first.orders()).to_have_text(["of-one"])
        other.speed(0)
        expect(second.pace).to_have_text("frozen")
        expect(first.pace).not_to_have_text("frozen")


def test_restart_of_the_server_is_told_and_recovered_from(
    new_tab: NewTab, contract: Contract, tmp_path: Path
) -> None:
    def served(port: int) -> AbstractContextManager[ServerProcess]:
        return server_process(tmp_path, "--port", str(port), "--store", f"sqlite:///{tmp_path}/store.db")

    def said(tab: Tab) -> Locator:
        return tab.connection

    with served(0) as server, Sandbox(server.url, contract) as api:
        api.speed(0)
        payment = api.created("happy_path")
        tabs = all_pages(new_tab, api, payment, server.url, stopped=True)
        for tab in tabs:
            tab.keep()
        server.stop(signal.SIGKILL)
        for tab in tabs:
            expect(said(tab)).to_contain_text(LOST)
            with tab.page.expect_event("requestfailed"):
                tab.pass_time(4)
            expect(said(tab)).to_contain_text(LOST)
    (tmp_path / "ready.json").unlink()
    with served(server.port), Sandbox(server.url, contract, api.api_key) as api:
        for tab in tabs:
            tab.pass_time(4)
            expect(said(tab)).not_to_contain_text(LOST)
        api.advance(45)
        api.payment(payment["id"])
        for tab, (place, _, words) in zip(tabs, SHOWN.values(), strict=True):
            expect(tab.page.locator(place)).to_contain_text(words)
            assert tab.kept()
            tab.forgive_lost_connections()
            tab.leave()


def test_hidden_page_lets_go_of_its_connection_and_takes_it_up_again(
    tab: Tab, api: Sandbox, server: RunningServer
) -> None:
    tab.stop_time()
    before = server.app.waiting
    tab.open()
    wait_until(lambda: server.app.waiting == before + 1)
    tab.hide()
    tab.pass_time(4)
    tab.hide(hidden=False)
    tab.pass_time(4)
    assert server.app.waiting == before + 1  # a short absence is none
    tab.hide()
    tab.pass_time(5)
    wait_until(lambda: server.app.waiting == before)
    api.created(order_id="order-1")
    tab.hide(hidden=False)
    expect(tab.orders()).to_have_text(["order-1"])
    wait_until(lambda: server.app.waiting == before + 1)


def test_open_pages_ask_for_nothing_while_nothing_happens(new_tab: NewTab, api: Sandbox) -> None:
    tabs = all_pages(new_tab, api, api.created())
    before = [[*tab.requested] for tab in tabs]
    tabs[0].page.wait_for_timeout(QUIET_SECONDS * 1000)
    assert [tab.requested for tab in tabs] == before


def test_checkout_works_without_the_control_api_and_the_dashboard_is_not_there(
    new_tab: NewTab, contract: Contract
) -> None:
    with running_server(Settings(port=0, control=False)) as server, Sandbox(server.url, contract) as api:
        payment = api.created("happy_path")
        customer = new_tab(origin=server.url)
        checkout_page(customer, payment)
        expect(customer.headline).to_have_text("Waiting for your payment")
        customer.button("Copy address").click()
        customer.announced("Copied")
        for path in ("/", "/requests", f"/payments/{payment['id']}", "/_mock/events"):
            assert httpx.get(server.url + path).status_code == 404
        customer.leave()
