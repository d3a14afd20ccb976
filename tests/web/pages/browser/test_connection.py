"""Pages that stay open: what they are told, and what they do when nobody tells them anything."""

import re
from pathlib import Path

import pytest
from playwright.sync_api import expect

from harness.server_process import server_process
from tests.support.contract import Contract
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


POLLS = ("/_mock/clock", ".json")


def lose_server(tabs: list[Tab]) -> None:
    """The server of the pages, whose time is stopped, is gone. They try to reach it, in vain."""
    for tab in tabs:
        for _ in range(2):  # the first failure is tried again at once
            with tab.page.expect_event("requestfailed"):
                tab.pass_time(4)
        expect(tab.connection).to_contain_text(LOST)


def test_pages_only_poll_while_nothing_happens_and_outlive_a_restart_of_the_server(
    new_tab: NewTab, contract: Contract, tmp_path: Path
) -> None:
    store = ("--store", f"sqlite:///{tmp_path}/store.db")
    with server_process(tmp_path, *store) as server, Sandbox(server.url, contract) as api:
        api.speed(0)
        payment = api.created("happy_path")
        tabs = [new_tab(api.api_key, server.url) for _ in SHOWN]
        tabs[0].stop_time()  # in all of them
        for tab, (path, (place, words, _)) in zip(tabs, SHOWN.items(), strict=True):
            tab.open(path.format(payment["id"])).keep()
            expect(tab.page.locator(place)).to_contain_text(words)
        before = [len(tab.requested) for tab in tabs]
        for _ in range(15):
            tabs[0].pass_time(2)  # as often as they look at a clock that is frozen
        for tab, number in zip(tabs, before, strict=True):
            polls = tab.requested[number:]
            assert len(polls) <= 15
            assert all(url.endswith(POLLS) for url in polls)
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
            tab.pass_time(2)
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
        said = "The server was restarted. Its store in memory started empty: earlier payments are lost."
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


def test_a_hidden_page_asks_nothing_and_is_up_to_date_when_it_is_seen_again(tab: Tab, api: Sandbox) -> None:
    tab.stop_time()
    tab.open()
    tab.hide()
    before = [*tab.requested]
    tab.pass_time(60)
    assert tab.requested == before
    api.created(order_id="order-1")
    tab.hide(hidden=False)
    expect(tab.orders()).to_have_text(["order-1"])


def test_a_dashboard_asks_half_as_often_once_nothing_has_changed_for_half_a_minute(
    tab: Tab, api: Sandbox
) -> None:
    api.speed(1)
    tab.stop_time()
    tab.open()

    def polls_in(seconds: int) -> int:
        before = len(tab.requested)
        for _ in range(seconds):
            tab.pass_time(1)
            tab.page.evaluate(
                "fetch('/livez').then((reply) => reply.text())"
            )  # a poll before it has its reply
        return sum(url.endswith("/_mock/clock") for url in tab.requested[before:])

    seen = 0
    while seen <= 31:
        seen += polls_in(1)
    assert polls_in(20) <= 11
    api.created(order_id="order-1")
    tab.pass_time(2)
    expect(tab.orders()).to_have_text(["order-1"])


def test_twelve_checkouts_and_three_dashboards_of_one_browser_all_say_when_they_are_paid(
    new_tab: NewTab, api: Sandbox
) -> None:
    """A browser has six connections to a server."""
    payments = [api.created("happy_path", order_id=f"order-{number}") for number in range(12)]
    checkouts = [checkout_page(new_tab(api.api_key), payment) for payment in payments]
    dashboards = [new_tab(api.api_key).open() for _ in range(3)]
    api.advance(45)
    for checkout in checkouts:
        expect(checkout.headline).to_have_text("Paid")
    for dashboard in dashboards:
        expect(dashboard.page.locator("#list tbody .badge")).to_have_text(["completed"] * 12)


def test_a_checkout_asks_nothing_once_nothing_lies_ahead(tab: Tab, api: Sandbox) -> None:
    tab.stop_time()
    checkout_page(tab, api.created("happy_path"))
    expect(tab.page.get_by_role("button", name="Next step")).to_be_visible()  # what it draws last
    api.advance(45)
    tab.poll()
    expect(tab.page.get_by_text("Next step: no changes remain.")).to_be_visible()
    before = [*tab.requested]
    tab.pass_time(60)
    assert tab.requested == before


@pytest.mark.parametrize(
    ("path", "drawn", "shown"),
    [("/", "**/fragments/payments?*", "#list .badge"), ("/checkout/{}", "**/checkout/{}", "#headline")],
)
@pytest.mark.parametrize("failure", ["503", "net::ERR"])
def test_a_redraw_that_fails_is_tried_again_at_once(
    tab: Tab, api: Sandbox, path: str, drawn: str, shown: str, failure: str
) -> None:
    payment_id = api.created("happy_path")["id"]
    tab.stop_time()
    tab.open(path.format(payment_id))
    place = tab.page.locator(shown)
    expect(place).to_have_text(re.compile("awaiting_payment|Waiting"))
    refused = drawn.format(payment_id)
    if failure == "503":
        tab.page.route(refused, lambda route: route.fulfill(status=503), times=1)
    else:
        tab.page.route(refused, lambda route: route.abort(), times=1)
    api.advance(45)
    tab.poll()
    expect(place).to_have_text(re.compile("completed|Paid"))
    expect(tab.connection).not_to_contain_text(LOST)
    tab.forgive(failure)
