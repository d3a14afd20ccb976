"""The list of payments at `/`, the clock and the dialogs that all pages of the dashboard share."""

import re
import shutil
import subprocess

import pytest
from playwright.sync_api import expect

from paymock.rules.times import LATEST
from paymock.settings import OPEN_KEY_EXAMPLE, Settings
from tests.support.client import DUE
from tests.support.server import running_server
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import TIMES, Sandbox, Tab


def test_payment_from_the_dialog_is_watched_to_its_end_by_the_controls_of_the_page(
    new_tab: NewTab, tab: Tab, api: Sandbox
) -> None:
    everything = new_tab(api.api_key).open()
    everything.keep()
    tab.open().create("happy_path", "order-77", "12.5")
    expect(tab.headline).to_have_text("order-77")
    expect(tab.status).to_have_text("awaiting payment")
    expect(everything.rows()).to_contain_text(["order-77"])
    tab.keep()
    tab.page.get_by_label("Advance by seconds").fill("5")
    tab.button("Advance").click()
    expect(tab.status).to_have_text("payment detected")
    expect(everything.rows()).to_contain_text(["payment detected"])
    tab.page.get_by_label("Advance by seconds").fill("40")
    tab.page.keyboard.press("Enter")
    expect(tab.status).to_have_text("completed")
    expect(everything.rows()).to_contain_text(["completed"])
    assert tab.kept()
    assert everything.kept()
    (payment,) = api.payments()
    assert payment["receive"]["amount"] == "12500000000000000000"
    assert payment["scenario"] == "happy_path"


def test_create_pressed_twice_makes_one_payment(tab: Tab, api: Sandbox) -> None:
    tab.open().button("New payment…").click()
    dialog = tab.page.get_by_role("dialog", name="New payment")
    dialog.get_by_role("button", name="Create").dblclick()
    expect(tab.status).to_have_text("awaiting payment")
    assert len(api.payments()) == 1


def test_a_list_that_could_not_be_read_is_read_again(tab: Tab, api: Sandbox) -> None:
    tab.page.route("**/_mock/payments?*", lambda route: route.abort(), times=1)
    api.created("happy_path")
    tab.open()
    expect(tab.rows()).to_have_count(1)
    expect(tab.page.get_by_text("cannot be reached")).to_be_hidden()
    tab.forgive_lost_connections()


def test_dialog_says_what_is_wrong_and_stays_open(tab: Tab, api: Sandbox) -> None:
    tab.open().button("New payment…").click()
    dialog = tab.page.get_by_role("dialog", name="New payment")
    for field, text, usual, reason in (
        ("Amount", "0", "1", "must be a positive number"),
        ("Amount", "1.0000000000000000001", "1", "no more decimals than the asset has"),
        ("Amount", "1e3", "1", "must be a positive number"),
        ("Payout address", "0x123", "", "receive.address must be"),
    ):
        dialog.get_by_label(field).fill(text)
        dialog.get_by_role("button", name="Create").click()
        expect(dialog.get_by_role("alert")).to_contain_text(reason)
        dialog.get_by_label(field).fill(usual)
    assert api.payments() == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    expect(tab.button("New payment…")).to_be_focused()
    tab.forgive("422")


def test_what_went_wrong_stays_said_until_something_else_is_done(tab: Tab, api: Sandbox) -> None:
    tab.open().page.route("**/_mock/clock/advance", lambda route: route.abort())
    tab.button("Advance").click()
    expect(tab.problem).to_have_text("The server cannot be reached.")
    api.created(order_id="order-1")
    expect(tab.orders()).to_have_text(["order-1"])
    expect(tab.problem).to_be_visible()
    tab.run(10)
    expect(tab.problem).to_be_hidden()
    tab.forgive_lost_connections()


def test_what_could_not_be_shown_is_said_until_it_can(tab: Tab, api: Sandbox) -> None:
    tab.page.route("**/_mock/payments?*", lambda route: route.abort(), times=1)
    tab.open()
    expect(tab.problem).to_have_text("The server cannot be reached.")
    api.created(order_id="order-1")
    expect(tab.orders()).to_have_text(["order-1"])
    expect(tab.problem).to_be_hidden()
    tab.forgive_lost_connections()


class TestList:
    def test_is_filtered(self, tab: Tab, api: Sandbox) -> None:
        api.move(api.created("no_payment_expired", order_id="order-3"), to="end")
        for number, scenario in enumerate(("happy_path", "manual_review"), 1):
            api.move(api.created(scenario, order_id=f"order-{number}"), to="payment_detected")
        search = tab.open().page.get_by_role("search")
        order_id = search.get_by_label("Order id")
        for status, scenario, order, found in (
            ("expired", "", "", ["order-3"]),
            ("payment_detected", "", "", ["order-2", "order-1"]),
            ("", "manual_review", "", ["order-2"]),
            ("", "", "order-1", ["order-1"]),
            ("payment_detected", "happy_path", "", ["order-1"]),
            ("payment_detected", "", "order-3", []),
        ):
            search.get_by_label("Status").select_option(status)
            search.get_by_label("Scenario").select_option(scenario)
            order_id.fill(order)
            search.get_by_role("button", name="Filter").click()
            expect(tab.orders()).to_have_text(found)
            expect(tab.page.get_by_text("No payment matches.")).to_be_visible(visible=not found)
            expect(search.get_by_label("Status")).to_have_value(status)
            expect(search.get_by_label("Scenario")).to_have_value(scenario)
            expect(order_id).to_have_value(order)
        search.get_by_role("link", name="Show all").click()
        expect(tab.orders()).to_have_text(["order-2", "order-1", "order-3"])

    def test_has_pages_of_25_and_keeps_the_filter_on_the_way(self, tab: Tab, api: Sandbox) -> None:
        for number in range(27):
            api.created("late_payment", order_id=f"order-{number}")
        api.created("happy_path", order_id="another")
        tab.open("/?scenario=late_payment")
        expect(tab.orders()).to_have_text([f"order-{number}" for number in range(26, 1, -1)])
        tab.page.get_by_role("link", name="Older").click()
        expect(tab.orders()).to_have_text(["order-1", "order-0"])
        expect(tab.page.get_by_role("link", name="Older")).to_have_count(0)
        api.advance(30)
        expect(tab.rows()).to_contain_text(["expired", "expired"])
        tab.page.get_by_role("link", name="Newest").click()
        expect(tab.orders()).to_have_count(25)

    def test_leads_to_older_ones_as_soon_as_the_filter_takes_one(self, tab: Tab, api: Sandbox) -> None:
        old = api.created("no_payment_expired")
        for payment in [api.created("happy_path") for _ in range(25)]:
            api.move(payment, to="end")
        tab.open("/?status=completed")
        expect(tab.orders()).to_have_count(25)
        older = tab.page.get_by_role("link", name="Older")
        expect(older).to_have_count(0)
        api.deposit(old, DUE)
        api.move(old, to="end")
        older.click()
        expect(tab.rows()).to_contain_text(["no_payment_expired"])

    def test_tells_of_each_payment_what_it_is_and_how_much_is_due(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path", order_id="order-1")
        tab.open()
        cells = tab.rows().locator("td")
        expect(cells.nth(0)).to_contain_text("order-1")
        expect(cells.nth(0).locator("small")).to_have_attribute("title", payment["id"])
        expect(cells.nth(1)).to_have_text("happy_path")
        expect(cells.nth(2)).to_have_text("awaiting payment")
        expect(cells.nth(3)).to_contain_text("1.01 USDT")
        expect(cells.nth(3)).to_contain_text("1010000000000000000 raw")

    def test_ages_count_on_the_clock_of_the_sandbox(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        api.created("no_payment_expired")
        api.advance(3)
        age = tab.open().page.locator(".age")
        expect(age).to_have_text("3 s")
        tab.pass_time(10)
        expect(age).to_have_text("3 s")
        with tab.told():
            tab.run(10)
        tab.pass_time(2)
        expect(age).to_have_text("23 s")
        api.advance(100)
        expect(age).to_have_text(re.compile("1 min|2 min"))

    def test_ages_do_not_jump_when_the_speed_changes(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        api.created("no_payment_expired")
        age = tab.open().page.locator(".age")
        expect(age).to_have_text("0 s")
        tab.pass_time(10)
        tab.page.route("**/_mock/payments?*", lambda _: None)  # what the server says comes late
        with tab.page.expect_request("**/_mock/payments?*"):
            tab.run(60)
        expect(age).to_have_text("0 s")
        tab.pass_time(1)
        expect(age).to_have_text("1 min 0 s")

    def test_that_is_empty_offers_a_command_that_creates_a_payment(self, tab: Tab, api: Sandbox) -> None:
        tab.open()
        expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
        tab.button("Copy the command").click()
        tab.announced("Copied")
        command = tab.copied()
        assert api.api_key not in command
        shell = shutil.which("sh")
        assert shell is not None
        ran = subprocess.run(
            [shell, "-c", command],
            env={"PATH": "/usr/bin:/bin", "PAYMOCK_API_KEY": api.api_key},
            capture_output=True,
            text=True,
            check=True,
        )
        assert '"status":"awaiting_payment"' in ran.stdout
        expect(tab.orders()).to_have_text(["order-1001"])
        expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_hidden()

    def test_names_what_is_wrong_with_a_filter_in_the_address(self, tab: Tab) -> None:
        tab.open("/?status=paid")
        expect(tab.problem).to_contain_text("status must be one of awaiting_payment")
        tab.forgive("400")


class TestClock:
    def test_runs_at_the_pressed_speed(self, tab: Tab, api: Sandbox) -> None:
        tab.open()
        group = tab.page.get_by_role("group", name="Speed")
        for speed in (1, 10, 60, 0):
            tab.run(speed)
            expect(group.get_by_role("button", pressed=True)).to_have_text(
                [f"{TIMES}{speed}" if speed else "Freeze"]
            )
            assert api.get("/_mock/clock").json()["speed"] == speed

    def test_shows_the_time_of_the_sandbox(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        with tab.told():
            now = tab.open().page.locator("#now")
        expect(now).to_have_text("2030-01-31 12:00:00 UTC")
        tab.page.get_by_label("Advance by seconds").fill("0.5")
        with tab.told():
            tab.button("Advance").click()
        with tab.told():
            tab.run(60)
        tab.pass_time(2)
        expect(now).to_have_text("2030-01-31 12:02:00 UTC")
        with tab.told():
            api.speed(0)
        expect(tab.pace).to_have_text("frozen")
        expect(now).to_have_text("2030-01-31 12:00:00 UTC")  # the server's own clock has stood still

    def test_ends_with_the_year_9999(self, new_tab: NewTab) -> None:
        with running_server(Settings(port=0, speed=1)) as server:
            server.clock.now = LATEST - 5000
            tab = new_tab(OPEN_KEY_EXAMPLE, server.url)
            tab.stop_time()
            now = tab.open().page.locator("#now")
            tab.pass_time(60)
            expect(now).to_have_text("9999-12-31 23:59:59 UTC")
            tab.leave()

    @pytest.mark.parametrize("keep", ["Keep everything", "Escape"])
    def test_is_reset_with_all_else_only_when_that_is_confirmed(
        self, tab: Tab, api: Sandbox, keep: str
    ) -> None:
        api.created(order_id="order-1")
        tab.open().button("Reset…").click()
        dialog = tab.page.get_by_role("dialog", name="Reset this sandbox?")
        if keep == "Escape":
            tab.page.keyboard.press("Escape")
        else:
            dialog.get_by_role("button", name=keep).click()
        expect(dialog).to_be_hidden()
        expect(tab.orders()).to_have_text(["order-1"])
        assert len(api.payments()) == 1
        tab.button("Reset…").click()
        dialog.get_by_role("button", name="Reset").click()
        expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
        expect(tab.pace).to_have_text(f"running {TIMES}1")
        assert api.payments() == []
