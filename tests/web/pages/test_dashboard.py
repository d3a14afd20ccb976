"""The list of payments at `/`, the clock and the dialogs that all pages of the dashboard share."""

import re
import shutil
import subprocess

import pytest
from playwright.sync_api import expect

from paymock.rules.times import LATEST
from paymock.settings import OPEN_KEY_EXAMPLE, Settings
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
    tab.advance(5)
    expect(tab.status).to_have_text("payment detected")
    expect(everything.rows()).to_contain_text(["payment detected"])
    tab.page.get_by_label("Advance the sandbox by seconds").fill("40")
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
    tab.page.route("**/fragments/payments?*", lambda route: route.abort(), times=1)
    api.created("happy_path")
    tab.open()
    expect(tab.rows()).to_have_count(1)
    expect(tab.page.get_by_text("cannot be reached")).to_be_hidden()
    tab.forgive_lost_connections()


@pytest.mark.parametrize("width", [1280, 375])
def test_dialog_says_what_is_wrong_at_the_field_and_stays_open(tab: Tab, api: Sandbox, width: int) -> None:
    tab.page.set_viewport_size({"width": width, "height": 667})
    tab.open().button("New payment…").click()
    dialog = tab.page.get_by_role("dialog", name="New payment")
    for label, text, usual, reason in (
        ("Amount", "0", "1", "Must be a positive number, with no more decimals than the asset has"),
        ("Amount", "1.0000000000000000001", "1", "no more decimals than the asset has"),
        ("Amount", "1e3", "1", "Must be a positive number"),
        ("Payout address", "0x123", "", "Must be an EVM address"),
    ):
        field = dialog.get_by_label(label)
        field.fill(text)
        dialog.get_by_role("button", name="Create").click()
        expect(field).to_have_accessible_description(re.compile(reason, re.IGNORECASE))
        expect(field).to_have_attribute("aria-invalid", "true")
        expect(field).to_be_focused()
        expect(field).to_be_in_viewport(ratio=1)
        expect(dialog.get_by_text(re.compile(reason, re.IGNORECASE))).to_be_in_viewport(ratio=1)
        field.fill(usual)
    expect(dialog.locator("[aria-invalid=true]")).to_have_count(1)
    assert api.payments() == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    expect(tab.button("New payment…")).to_be_focused()
    tab.forgive("422")


def test_seconds_that_lead_too_far_are_refused_at_their_field(tab: Tab) -> None:
    seconds = tab.open().page.get_by_label("Advance the sandbox by seconds")
    tab.page.route(
        "**/_mock/clock/advance",
        lambda route: route.fulfill(
            status=422,
            json={
                "error": {
                    "code": "validation_failed",
                    "message": "1 field is not acceptable; see `details`.",
                    "details": [{"field": "seconds", "message": "leads beyond 9999-12-31"}],
                }
            },
        ),
    )
    tab.button("Advance sandbox").click()
    expect(seconds).to_have_accessible_description("leads beyond 9999-12-31")
    expect(seconds).to_be_focused()
    expect(tab.problem).to_be_hidden()
    tab.forgive("422")


def test_what_went_wrong_stays_said_until_something_else_is_done(tab: Tab, api: Sandbox) -> None:
    tab.open().page.route("**/_mock/clock/advance", lambda route: route.abort())
    tab.button("Advance sandbox").click()
    expect(tab.problem).to_have_text("The server cannot be reached.")
    api.created(order_id="order-1")
    expect(tab.orders()).to_have_text(["order-1"])
    expect(tab.problem).to_be_visible()
    tab.run(10)
    expect(tab.problem).to_be_hidden()
    tab.forgive_lost_connections()


def test_what_could_not_be_shown_is_said_until_it_can(tab: Tab, api: Sandbox) -> None:
    tab.page.route("**/fragments/payments?*", lambda route: route.abort(), times=1)
    tab.open()
    expect(tab.problem).to_have_text("The server cannot be reached.")
    api.created(order_id="order-1")
    expect(tab.orders()).to_have_text(["order-1"])
    expect(tab.problem).to_be_hidden()
    tab.forgive_lost_connections()


class TestList:
    def test_is_filtered_at_once_and_in_the_address(self, tab: Tab, api: Sandbox) -> None:
        first = api.created("no_payment_expired", order_id="another-3")
        api.move(first, to="end")
        for number, scenario in enumerate(("happy_path", "manual_review"), 1):
            api.move(api.created(scenario, order_id=f"order-{number}"), to="payment_detected")
        search = tab.open().page.get_by_role("search")
        expect(tab.count).to_have_text("3 payments")
        for status, scenario, prefix, found in (
            ("expired", "", "", ["another-3"]),
            ("payment_detected", "", "", ["order-2", "order-1"]),
            ("", "manual_review", "", ["order-2"]),
            ("", "", "order-1", ["order-1"]),
            ("", "", "order", ["order-2", "order-1"]),
            ("", "", "rder", []),
            ("", "", first["id"][:12], ["another-3"]),
            ("payment_detected", "happy_path", "", ["order-1"]),
            ("payment_detected", "", "another", []),
        ):
            search.get_by_label("Status").select_option(status)
            search.get_by_label("Scenario").select_option(scenario)
            search.get_by_label("Order or payment id").fill(prefix)
            expect(tab.count).to_have_text(f"{len(found)} of 3 payments")
            expect(tab.orders()).to_have_text(found)
            expect(tab.page.get_by_text("No payment matches.")).to_be_visible(visible=not found)
            tab.page.reload()
            expect(tab.count).to_have_text(f"{len(found)} of 3 payments")
            expect(tab.orders()).to_have_text(found)
            expect(search.get_by_label("Status")).to_have_value(status)
            expect(search.get_by_label("Scenario")).to_have_value(scenario)
            expect(search.get_by_label("Order or payment id")).to_have_value(prefix)
        search.get_by_role("button", name="Show all").click()
        expect(tab.orders()).to_have_text(["order-2", "order-1", "another-3"])
        expect(search.get_by_label("Order or payment id")).to_be_focused()
        assert tab.page.url == f"{tab.origin}/"

    def test_goes_on_as_one_scrolls_and_renews_what_is_seen(self, tab: Tab, api: Sandbox) -> None:
        for number in range(250):
            api.created("late_payment", order_id=f"order-{number}")
        tab.open("/?scenario=late_payment")
        expect(tab.count).to_have_text("100 or more of 250 payments")
        for rows in (200, 250):
            expect(tab.orders()).to_have_count(rows - 100 if rows == 200 else 200)
            tab.page.locator("#paging").scroll_into_view_if_needed()
        expect(tab.orders()).to_have_text([f"order-{number}" for number in range(249, -1, -1)])
        expect(tab.count).to_have_text("250 of 250 payments")
        expect(tab.button("Older payments")).to_be_hidden()
        tab.orders().last.scroll_into_view_if_needed()
        api.advance(30)
        expect(tab.rows().last).to_contain_text("expired")
        api.created("late_payment", order_id="new")
        tab.button("Show 1 new payment").click()
        expect(tab.orders().first).to_have_text("new")
        expect(tab.orders().first).to_be_in_viewport()
        expect(tab.orders()).to_have_count(100)

    def test_marks_a_payment_that_is_ahead_of_its_sandbox(self, tab: Tab, api: Sandbox) -> None:
        api.move(api.created(order_id="order-1"), seconds=7)
        api.created(order_id="order-2")
        tab.open()
        expect(tab.rows().filter(has_text="order-1")).to_contain_text("7 s ahead")
        expect(tab.rows().filter(has_text="order-2")).not_to_contain_text("ahead")

    def test_does_not_let_a_long_order_id_or_amount_squeeze_the_rest(self, tab: Tab, api: Sandbox) -> None:
        api.created("no_payment_expired", order_id="x" * 128, receive__amount="9" * 70)
        tab.open()
        scenario = tab.rows().locator("td").nth(1)
        expect(scenario).to_have_text("no_payment_expired")
        assert scenario.evaluate("cell => cell.getClientRects()[0].width > 120")
        assert tab.fits()

    def test_isolates_an_order_id_that_would_reverse_the_text(self, tab: Tab, api: Sandbox) -> None:
        api.created(order_id="order-\u202e1001")
        tab.open()
        expect(tab.orders()).to_have_text(["order-U+202E1001"])
        tab.orders().click()
        expect(tab.headline).to_have_text("order-U+202E1001")

    def test_tells_of_each_payment_what_it_is_and_how_much_is_due(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path", order_id="order-1")
        tab.open()
        cells = tab.rows().locator("td")
        expect(tab.count).to_have_text("1 payment")
        expect(cells.nth(0)).to_contain_text("order-1")
        expect(cells.nth(0).locator("small")).to_have_attribute("title", payment["id"])
        expect(cells.nth(1)).to_have_text("happy_path")
        expect(cells.nth(2)).to_have_text("awaiting payment")
        expect(cells.nth(3)).to_contain_text("1.01 USDT")
        expect(cells.nth(3)).to_contain_text("1010000000000000000 raw")
        expect(cells.nth(4)).to_contain_text("12:00:00 2030-01-31")

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
        tab.page.route("**/fragments/payments?*", lambda _: None)  # what the server says comes late
        with tab.page.expect_request("**/fragments/payments?*"):
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
        assert f"Bearer {api.api_key}" in command  # of open mode: no secret
        shell = shutil.which("sh")
        assert shell is not None
        ran = subprocess.run(
            [shell, "-c", command],
            env={"PATH": "/usr/bin:/bin"},
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
        with tab.told():
            tab.advance(0.5)
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
            tab.pass_time(40)
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


class TestNextPayment:
    """What is pending for the next creations, and the fault rules, on the page of the list."""

    def test_is_seen_set_and_cleared(self, tab: Tab, api: Sandbox) -> None:
        tab.open()
        summary = tab.page.locator("#next-summary")
        expect(summary).to_have_text("nothing is pending, no fault rules")
        tab.page.get_by_text("Next payment").click()
        tab.page.locator("#next-scenario").select_option("settlement_failed")
        tab.page.get_by_label("For so many creations").fill("2")
        tab.button("Add to the queue").click()
        expect(summary).to_have_text(f"settlement_failed {TIMES}2")
        tab.announced("Added to the queue")
        api.create()
        expect(summary).to_have_text(f"settlement_failed {TIMES}1")
        assert [payment["scenario"] for payment in api.payments()] == ["settlement_failed"]
        tab.button("Clear what is pending").click()
        expect(summary).to_have_text("nothing is pending, no fault rules")
        assert api.get("/_mock/next").json() == {"data": []}

    def test_names_what_is_wrong_at_its_field(self, tab: Tab) -> None:
        tab.open().page.get_by_text("Next payment").click()
        fault, scenario = tab.page.locator("#next-fault"), tab.page.locator("#next-scenario")
        tab.button("Add to the queue").click()
        expect(scenario).to_have_accessible_description("choose a scenario, or enter a fault")
        fault.fill("boom")
        tab.button("Add to the queue").click()
        expect(fault).to_have_accessible_description(re.compile("must be status=CODE", re.IGNORECASE))
        expect(fault).to_be_focused()
        tab.forgive("422")

    def test_tells_of_fault_rules_and_adds_them(self, tab: Tab, api: Sandbox) -> None:
        tab.open().page.get_by_text("Next payment").click()
        tab.button("Add a rule…").click()
        dialog = tab.page.get_by_role("dialog", name="New fault rule")
        dialog.get_by_label("Operation").select_option("getPayment")
        dialog.get_by_role("button", name="Add").click()
        expect(tab.page.locator("#next-summary")).to_have_text("1 fault rule")
        expect(tab.rules()).to_contain_text(["getPayment"])
        assert api.get(f"/v1/payments/{api.created()['id']}").status_code == 503
        tab.button("Delete all rules").click()
        expect(tab.page.locator("#next-summary")).to_have_text("nothing is pending, no fault rules")
