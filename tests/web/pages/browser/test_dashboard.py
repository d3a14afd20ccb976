"""The list of payments at `/`, the clock and the dialogs that all pages of the dashboard share."""

import re
import shutil
import subprocess

from playwright.sync_api import expect

from paymock.rules.times import LATEST
from paymock.settings import OPEN_KEY_EXAMPLE, Settings
from paymock.web.http.templates import count, duration
from tests.support.server import running_server
from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.steps import TIMES, Tab
from tests.web.pages.sandbox import Sandbox


def test_payment_is_created_and_watched_to_its_end(new_tab: NewTab, tab: Tab, api: Sandbox) -> None:
    everything = new_tab(api.api_key).open()
    everything.keep()
    tab.open().button("New payment…").click()
    dialog = tab.page.get_by_role("dialog", name="New payment")
    dialog.get_by_role("radio", name="happy_path ends completed").check()
    dialog.get_by_label("Order id").fill("order-77")
    dialog.get_by_label("Amount").fill("12.5")
    dialog.get_by_role("button", name="Create").click()
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


def test_dialog_says_what_is_wrong_at_the_field_and_stays_open(tab: Tab, api: Sandbox) -> None:
    tab.page.set_viewport_size({"width": 375, "height": 667})
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
        expect(dialog.get_by_text(re.compile(reason, re.IGNORECASE))).to_be_in_viewport(ratio=1)
        field.fill(usual)
    expect(dialog.locator("[aria-invalid=true]")).to_have_count(1)
    assert api.payments() == []
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    expect(tab.button("New payment…")).to_be_focused()
    tab.forgive("422")


def test_what_went_wrong_stays_said_until_something_else_is_done(tab: Tab, api: Sandbox) -> None:
    tab.page.route("**/fragments/payments?*", lambda route: route.abort(), times=1)
    tab.page.route("**/_mock/clock/advance", lambda route: route.abort())
    tab.open()
    expect(tab.problem).to_have_text("The server cannot be reached.")  # the list could not be read
    api.created(order_id="order-1")
    expect(tab.orders()).to_have_text(["order-1"])
    expect(tab.problem).to_be_hidden()
    tab.button("Advance sandbox").click()
    expect(tab.problem).to_have_text("The server cannot be reached.")
    api.created(order_id="order-2")
    expect(tab.orders()).to_have_count(2)
    expect(tab.problem).to_be_visible()
    details = [{"field": "seconds", "message": "leads beyond 9999-12-31"}]
    refusal = {"error": {"code": "validation_failed", "message": "See `details`.", "details": details}}
    tab.page.route("**/_mock/clock/advance", lambda route: route.fulfill(status=422, json=refusal))
    tab.button("Advance sandbox").click()
    seconds = tab.page.get_by_label("Advance the sandbox by seconds")
    expect(seconds).to_have_accessible_description("leads beyond 9999-12-31")
    expect(seconds).to_be_focused()
    expect(tab.problem).to_be_hidden()
    tab.forgive_lost_connections()
    tab.forgive("422")


def test_server_and_scripts_write_durations_and_counts_alike(tab: Tab) -> None:
    seconds = [0, 0.04, 9.99, 10.5, 59.9, 60, 61.5, 3599.9, 3600, 3661, 86_399, 86_400, 90_061, 1e9]
    counts = [0, 1, 2, 999, 1000, 1_234_567]
    tab.page.goto(tab.origin)
    texts = tab.page.evaluate(
        """async ([seconds, counts]) => {
            const { duration, count } = await import("/assets/format.js");
            return [seconds.map(duration), counts.map(number => count(number, "read"))];
        }""",
        [seconds, counts],
    )
    assert texts == [[duration(one) for one in seconds], [count(one, "read") for one in counts]]


class TestList:
    def test_is_filtered_at_once_and_in_the_address(self, tab: Tab, api: Sandbox) -> None:
        first = api.created("no_payment_expired", order_id="another-3")
        api.move(first, to="end")
        for number, scenario in enumerate(("happy_path", "manual_review"), 1):
            api.move(api.created(scenario, order_id=f"order-{number}"), to="payment_detected")
        search = tab.open().page.get_by_role("search")
        fields = [search.get_by_label(name) for name in ("Status", "Scenario", "Order or payment id")]
        expect(tab.count).to_have_text("3 payments")
        for status, scenario, prefix, found in (
            ("payment_detected", "", "", ["order-2", "order-1"]),
            ("", "manual_review", "", ["order-2"]),
            ("", "", "rder", []),
            ("", "", first["id"][:12], ["another-3"]),
            ("payment_detected", "happy_path", "order", ["order-1"]),
        ):
            fields[0].select_option(status)
            fields[1].select_option(scenario)
            fields[2].fill(prefix)
            expect(tab.count).to_have_text(f"{len(found)} of 3 payments")
            expect(tab.orders()).to_have_text(found)
            expect(tab.page.get_by_text("No payment matches.")).to_be_visible(visible=not found)
        tab.page.reload()
        expect(tab.orders()).to_have_text(["order-1"])
        for field, value in zip(fields, ("payment_detected", "happy_path", "order"), strict=True):
            expect(field).to_have_value(value)
        search.get_by_role("button", name="Show all").click()
        expect(tab.orders()).to_have_text(["order-2", "order-1", "another-3"])
        expect(fields[2]).to_be_focused()
        assert tab.page.url == f"{tab.origin}/"
        tab.open("/?status=paid")
        expect(tab.problem).to_contain_text("status must be one of awaiting_payment")
        tab.forgive("400")

    def test_goes_on_as_one_scrolls_and_renews_what_is_seen(self, tab: Tab, api: Sandbox) -> None:
        for number in range(250):
            api.created("late_payment", order_id=f"order-{number}")
        tab.open("/?scenario=late_payment")
        expect(tab.count).to_have_text("100 or more of 250 payments")
        for rows in (100, 200):
            expect(tab.orders()).to_have_count(rows)
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

    def test_tells_of_each_payment_what_it_is_and_how_much_is_due(self, api: Sandbox) -> None:
        ahead = api.created(order_id="order-1")
        api.move(ahead, seconds=7)
        api.created("no_payment_expired", order_id="order-\u202e1001")
        newer, older = api.rows("payments")
        for text in ("order- U+202E 1001 pay_", " no_payment_expired awaiting payment 1.01 USDT "):
            assert text in newer
        assert newer.endswith(" 1010000000000000000 raw 12:00:00 2030-01-31")
        assert older.endswith(" 12:00:00 2030-01-31 7 s ahead")
        assert f'title="{ahead["id"]}"' in api.fragment("payments")

    def test_ages_count_on_the_clock_of_the_sandbox(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        api.created("no_payment_expired")
        api.advance(3)
        age = tab.open().page.locator(".age")
        expect(age).to_have_text("3 s")
        tab.pass_time(10)
        expect(age).to_have_text("3 s")
        tab.page.route("**/fragments/payments?*", lambda _: None)  # what the server says comes late
        with tab.page.expect_request("**/fragments/payments?*"):
            tab.run(60)
        expect(age).to_have_text("3 s")  # the past does not count anew at the new speed
        tab.pass_time(1)
        expect(age).to_have_text("1 min 3 s")

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
            [shell, "-c", command], env={"PATH": "/usr/bin:/bin"}, capture_output=True, text=True, check=True
        )
        assert '"status":"awaiting_payment"' in ran.stdout
        expect(tab.orders()).to_have_text(["order-1001"])
        expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_hidden()


class TestClock:
    def test_runs_at_the_pressed_speed(self, tab: Tab, api: Sandbox) -> None:
        tab.open()
        group = tab.page.get_by_role("group", name="Speed")
        for speed in (1, 10, 60, 0):
            tab.run(speed)
            text = f"{TIMES}{speed}" if speed else "Freeze"
            expect(group.get_by_role("button", pressed=True)).to_have_text([text])
            assert api.get("/_mock/clock").json()["speed"] == speed

    def test_shows_the_time_of_the_sandbox(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        api.speed(60)
        now = tab.open().page.locator("#now")
        expect(now).to_have_text("2030-01-31 12:00:00 UTC")
        tab.pass_time(2)
        expect(now).to_have_text("2030-01-31 12:02:00 UTC")
        api.speed(0)
        expect(tab.pace).to_have_text("frozen")
        expect(now).to_have_text("2030-01-31 12:00:00 UTC")  # the server's own clock has stood still

    def test_is_shown_less_often_to_those_who_want_less_motion(self, tab: Tab, api: Sandbox) -> None:
        tab.page.emulate_media(reduced_motion="reduce")
        tab.stop_time()
        api.speed(1)
        now = tab.open().page.locator("#now")
        expect(now).to_have_text("2030-01-31 12:00:00 UTC")
        shown = set()
        for _ in range(10):
            tab.pass_time(0.2)
            shown.add(now.inner_text())
        assert len(shown) == 3

    def test_ends_with_the_year_9999(self, new_tab: NewTab) -> None:
        with running_server(Settings(port=0, speed=1)) as server:
            server.clock.now = LATEST - 5000
            tab = new_tab(OPEN_KEY_EXAMPLE, server.url)
            tab.stop_time()
            now = tab.open().page.locator("#now")
            tab.pass_time(40)
            expect(now).to_have_text("9999-12-31 23:59:59 UTC")
            tab.leave()

    def test_is_reset_with_all_else_only_when_that_is_confirmed(self, tab: Tab, api: Sandbox) -> None:
        api.created(order_id="order-1")
        tab.open()
        dialog = tab.page.get_by_role("dialog", name="Reset this sandbox?")
        for keep in ("Keep everything", "Escape"):
            tab.button("Reset…").click()
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
        expect(tab.page.locator("#next-scenario")).to_be_focused()
        assert api.get("/_mock/next").json() == {"data": []}
        tab.button("Add a rule…").click()
        tab.page.get_by_role("dialog", name="New fault rule").get_by_role("button", name="Add").click()
        expect(summary).to_have_text("1 fault rule")
        tab.button("Delete all rules").click()
        expect(summary).to_have_text("nothing is pending, no fault rules")

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
