import re
import subprocess

from playwright.sync_api import Locator, expect

from paymock.rules.scenarios import SCENARIOS
from paymock.web.pages.templating import duration
from tests.web.pages.browser.steps import TIMES, Tab, press
from tests.web.pages.sandbox import Sandbox


def open_and_close(tab: Tab, button: str, name: str) -> Locator:
    """Opens a dialog, which keeps the focus inside, with the keyboard, and closes it, which gives it back."""
    press(tab, tab.button(button))
    dialog = tab.page.get_by_role("dialog", name=name)
    expect(dialog).to_be_visible()
    assert dialog.evaluate("node => node.matches(':modal') && node.contains(document.activeElement)")
    tab.page.keyboard.press("Escape")
    expect(dialog).to_be_hidden()
    expect(tab.button(button)).to_be_focused()
    return dialog


def test_creation_makes_one_payment_and_says_what_is_wrong_at_the_field(tab: Tab, api: Sandbox) -> None:
    tab.page.set_viewport_size({"width": 375, "height": 667})
    dialog = open_and_close(tab.open(), "New payment…", "New payment")
    tab.button("New payment…").click()
    dialog.get_by_role("button", name="Create").dblclick()
    expect(tab.status).to_have_text("awaiting_payment")
    tab.button("New payment…").click()
    for label, text, usual, reason in (
        ("Amount", "1e3", "1", "Must be a positive number, with no more decimals than the asset has"),
        ("Amount", "1.0000000000000000001", "1", "no more decimals than the asset has"),
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
    assert len(api.payments()) == 1
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    tab.forgive("422")


def test_what_went_wrong_stays_said_until_something_else_is_done(tab: Tab, api: Sandbox) -> None:
    tab.page.route("**/_mock/clock/advance", lambda route: route.abort())
    tab.open()
    tab.button("Advance sandbox").click()
    expect(tab.problem).to_have_text("The server cannot be reached.")
    api.created(order_id="order-1")
    expect(tab.orders()).to_have_text(["order-1"])
    expect(tab.problem).to_be_visible()
    tab.page.unroute("**/_mock/clock/advance")
    tab.button("Advance sandbox").click()
    expect(tab.problem).to_be_hidden()
    tab.forgive("net::ERR")


def test_server_and_scripts_write_durations_alike(tab: Tab) -> None:
    seconds = [0, 0.04, 9.99, 10.5, 59.9, 60, 61.5, 3599.9, 3600, 3661, 86_399, 86_400, 90_061, 1e9]
    tab.page.goto(tab.origin)
    texts = tab.page.evaluate(
        """async (seconds) => {
            const { duration } = await import("/assets/format.js");
            return seconds.map(duration);
        }""",
        seconds,
    )
    assert texts == [duration(one) for one in seconds]


class TestList:
    def test_is_filtered_at_once_and_in_the_address(self, tab: Tab, api: Sandbox) -> None:
        first = api.created("no_payment_expired", order_id="another-3")
        api.move(first, to="end")
        for number, scenario in enumerate(("happy_path", "manual_review"), 1):
            api.move(api.created(scenario, order_id=f"order-{number}"), to="payment_detected")
        search = tab.open().page.get_by_role("search")
        fields = [search.get_by_label(name) for name in ("Scenario", "Order, id, address or hash")]
        chips = search.get_by_role("radio")
        for status, scenario, prefix, found, counts in (
            ("payment_detected", "", "", "order-2 order-1", "all 3, payment_detected 2, expired 1"),
            ("", "manual_review", "", "order-2", "all 1, payment_detected 1"),
            ("", "", "Order", "", "all 0"),
            ("", "", first["id"][:12], "another-3", "all 1, expired 1"),
            ("payment_detected", "happy_path", "order", "order-1", "all 1, payment_detected 1"),
        ):
            fields[0].select_option(scenario)
            fields[1].fill(prefix)
            search.get_by_role("radio", name=status or "all").focus()
            tab.page.keyboard.press("Space")
            expect(tab.orders()).to_have_text(found.split())
            assert ", ".join(chip.locator("..").inner_text() for chip in chips.all()) == counts
            expect(search.get_by_role("radio", name=status or "all")).to_be_focused()
            expect(tab.page.get_by_text("No payment matches.")).to_be_visible(visible=not found)
        tab.page.reload()
        expect(tab.orders()).to_have_text(["order-1"])
        expect(search.get_by_role("radio", name="payment_detected")).to_be_checked()
        for field, value in zip(fields, ("happy_path", "order"), strict=True):
            expect(field).to_have_value(value)
        search.get_by_role("link", name="Show all").click()
        expect(tab.orders()).to_have_text(["order-2", "order-1", "another-3"])
        assert tab.page.url == f"{tab.origin}/"
        tab.button("Copy link").click()
        tab.announced("Copied")
        assert tab.copied() == f"{tab.origin}/#key={api.api_key}"
        tab.open("/?status=paid")
        expect(tab.problem).to_contain_text("status must be one of awaiting_payment")
        tab.forgive("400")

    def test_goes_on_as_one_scrolls_and_renews_what_is_seen(self, tab: Tab, api: Sandbox) -> None:
        for number in range(250):
            api.created("late_payment", order_id=f"order-{number}")
        tab.open("/?scenario=late_payment")
        for rows in (100, 200):
            expect(tab.orders()).to_have_count(rows)
            tab.page.locator("#paging").scroll_into_view_if_needed()
        expect(tab.orders()).to_have_text([f"order-{number}" for number in range(249, -1, -1)])
        expect(tab.button("Older payments")).to_be_hidden()
        tab.orders().last.scroll_into_view_if_needed()
        api.advance(30)
        expect(tab.rows().last).to_contain_text("expired")
        api.created("late_payment", order_id="new")
        tab.button("Show the newest").click()
        expect(tab.orders().first).to_have_text("new")
        expect(tab.orders().first).to_be_in_viewport()
        expect(tab.orders()).to_have_count(100)
        tab.orders().first.hover()
        tab.page.mouse.down()
        with tab.page.expect_response("**/fragments/payments?*"):
            api.created("late_payment", order_id="newest")
        tab.page.mouse.up()
        expect(tab.page.get_by_role("heading", name="new", exact=True)).to_be_visible()


class TestClock:
    def test_runs_at_the_pressed_speed_and_counts_down(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        tab.page.emulate_media(forced_colors="active")
        api.created("no_payment_expired")
        now, row = tab.open().page.locator("#now"), tab.rows()
        buttons = tab.page.get_by_role("group", name="Speed").get_by_role("button")
        for speed in (1, 10, 60, 0):
            tab.run(speed)
            assert api.get("/_mock/clock").json()["speed"] == speed
            read = "buttons => buttons.map(one => [one.ariaPressed, getComputedStyle(one).backgroundColor])"
            colors = dict(buttons.evaluate_all(read))
            assert colors["true"] != colors["false"]
        seconds = tab.page.get_by_label("Advance the sandbox by seconds")
        seconds.fill("3")
        seconds.press("Enter")
        expect(now).to_have_text("2030-01-31 12:00:03 UTC")
        expect(row).to_contain_text("expired in 27 s")
        tab.pass_time(10)
        expect(row).to_contain_text("expired in 27 s")
        tab.page.route("**/fragments/payments?*", lambda _: None)  # what the server says comes late
        with tab.page.expect_request("**/fragments/payments?*"):
            tab.run(10)
        expect(row).to_contain_text("expired in 27 s")  # the past does not count anew at the new speed
        tab.pass_time(2)
        expect(row).to_contain_text("expired in 7 s")
        expect(now).to_have_text("2030-01-31 12:00:23 UTC")
        tab.run(0)
        expect(now).to_have_text("2030-01-31 12:00:03 UTC")  # the server's own clock has stood still


def test_empty_sandbox_offers_a_command_and_all_scenarios_and_is_reset(tab: Tab, api: Sandbox) -> None:
    empty = tab.open().page.get_by_role("heading", name="No payments yet")
    expect(empty).to_be_visible()
    tab.button("Copy the command").click()
    tab.announced("Copied")
    command = tab.copied()
    assert f"Bearer {api.api_key}" in command  # of open mode: no secret
    subprocess.run(["/bin/sh", "-c", command], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)
    expect(tab.orders()).to_have_text(["order-1001"])
    expect(empty).to_be_hidden()
    dialog = open_and_close(tab, "Reset…", "Reset this sandbox?")
    tab.button("Reset…").click()
    dialog.get_by_role("button", name="Cancel").click()
    expect(dialog).to_be_hidden()
    expect(tab.orders()).to_have_text(["order-1001"])
    tab.button("Reset…").click()
    dialog.get_by_role("button", name="Reset").click()
    expect(empty).to_be_visible()
    expect(tab.pace).to_have_text(f"running {TIMES}1")
    assert api.payments() == []
    tab.button("Play all eight scenarios").click()
    expect(tab.rows()).to_contain_text([*SCENARIOS])
    expect(tab.orders()).to_have_text([f"order-{1001 + number}" for number in range(len(SCENARIOS))])
    expect(tab.pace).to_have_text(f"running {TIMES}10")
    expect(tab.page.get_by_role("main")).to_be_focused()
    tab.rows().first.get_by_role("link").click()
    api.advance(3_600)
    expect(tab.pace).to_have_text(f"running {TIMES}1")  # on whichever page, when the last has ended


def test_requests_appear_as_they_come_and_are_filtered_and_cleared(tab: Tab, api: Sandbox) -> None:
    tab.open("/requests").keep()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    payment = api.created(order_id="order-1")
    api.get("/v1/chains", headers={"X-Mock-Fault": "status=503"})
    expect(tab.rows()).to_contain_text(["/v1/chains", "201 (new, key 1)"])
    tab.page.get_by_label("Only errors and faults").check()
    expect(tab.rows()).to_have_count(1)
    expect(tab.rows()).to_contain_text("503 injected_fault")
    tab.rows().locator("summary").click()
    api.payment(payment["id"])
    api.get("/v1/payments/nope")
    expect(tab.rows()).to_contain_text(["404 payment_not_found", "503 injected_fault"])
    expect(tab.rows()).to_have_count(2)
    expect(tab.rows().last.locator("details")).to_have_attribute("open", "")
    assert tab.page.url.endswith("/requests?failed=true")
    tab.page.get_by_label("Only errors and faults").uncheck()
    expect(tab.rows()).to_have_count(4)
    tab.button("Clear the journal").click()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    assert api.get("/_mock/requests").json()["data"] == []
    assert len(api.payments()) == 1
    assert tab.kept()
