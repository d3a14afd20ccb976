"""What is drawn of a payment on its page: its timeline, and its funding."""

import re

import pytest
from playwright.sync_api import expect

from tests.support.client import DUE
from tests.web.pages.steps import Sandbox, Tab, payment_page

HALF = DUE // 2


BARS = """svg => [...svg.querySelectorAll("rect.future")].map(future => {
    const solid = future.nextElementSibling, number = (node, name) => Number(node.getAttribute(name));
    return {
        from: number(future, "x"),
        to: number(future, "x") + number(future, "width"),
        solid: number(solid, "width"),
        now: number(svg.querySelector("line.now"), "x1"),
        dashed: [future, solid].map(bar => getComputedStyle(bar).strokeDasharray !== "none"),
    };
})"""
"""The bars of the timeline: where each begins and ends, and how much of it is solid, in pixels."""


def facts(tab: Tab) -> dict[str, str]:
    """What the page says of the funding, by its name, in raw units."""
    names, values = (tab.page.locator(f"#funding {part}").all_text_contents() for part in ("dt", "dd .raw"))
    return {name: value.removesuffix(" raw units") for name, value in zip(names, values, strict=True)}


class TestTimeline:
    def test_is_solid_where_it_is_past_and_dashed_where_it_is_to_come(self, tab: Tab, api: Sandbox) -> None:
        payment_page(tab, api.created("happy_path"))
        now = 0.0
        for age, text in (
            (0, "0 s"),
            (3, "3 s"),
            (9.5, "9.5 s"),
            (13, "13 s"),
            (27, "27 s"),
            (600, "10 min 0 s"),
        ):
            if age:
                api.advance(age - now)
            now = age
            expect(tab.picture.locator(".now-label")).to_have_text(f"now: {text}")
            bars = tab.picture.evaluate(BARS)
            assert len(bars) == 1 + 6 + 1  # the window, the statuses, the deposit
            for bar in bars:
                assert bar["solid"] == pytest.approx(
                    max(0, min(bar["now"], bar["to"]) - bar["from"]), abs=0.02
                )
                assert bar["dashed"] == [True, False]

    def test_moves_its_line_with_a_running_clock_and_stops_at_what_only_the_server_can_say(
        self, tab: Tab, api: Sandbox
    ) -> None:
        tab.stop_time()
        api.speed(10)
        payment_page(tab, api.created("happy_path"))
        line, label = tab.picture.locator("line.now"), tab.picture.locator(".now-label")
        places = []
        for seconds, text in [(0.2, "now: 2 s"), (0.2, "now: 4 s"), (5, "now: 5 s"), (5, "now: 5 s")]:
            tab.pass_time(seconds)
            expect(label).to_have_text(text)
            places.append(float(line.get_attribute("x1") or 0))
        assert places[0] < places[1] < places[2] == places[3]

    def test_stands_still_while_the_clock_does(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        payment_page(tab, api.created("happy_path"))
        place = tab.picture.locator("line.now").get_attribute("x1")
        tab.pass_time(60)
        expect(tab.picture.locator(".now-label")).to_have_text("now: 0 s")
        expect(tab.picture.locator("line.now")).to_have_attribute("x1", place or "")
        api.advance(8)
        expect(tab.picture.locator(".now-label")).to_have_text("now: 8 s")

    def test_has_a_tick_for_each_step_of_confirmation(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path")
        api.advance(9)
        drawn = payment_page(tab, payment).picture
        track = drawn.locator(".deposit")
        expect(drawn.locator(".confirmations")).to_have_text(["0", "4", "8", "12", "16"])
        expect(track.locator("circle:not(.future)")).to_have_count(3)
        expect(track.locator("circle.future")).to_have_count(2)

    def test_names_the_window_the_deposit_and_each_status(self, tab: Tab, api: Sandbox) -> None:
        drawn = payment_page(tab, api.created("happy_path")).picture
        for text in ("Payment window: closes at 30 s", "Deposit 1: to be finalized"):
            expect(drawn.locator("text").filter(has_text=text)).to_have_count(1)
        labels = drawn.locator("text.label")
        expect(labels).to_have_text(
            [
                "awaiting payment",
                "payment detected",
                "payment finalized",
                "settlement pending",
                "settlement submitted",
                "completed",
            ]
        )
        expect(labels.and_(tab.page.locator(".ahead"))).to_have_count(5)
        expect(drawn).to_have_attribute(
            "aria-label",
            "awaiting payment at 0 s; next: Deposit observed, confirmations 0/16, pending: payment_detected, "
            "at 5 s. All steps are in the table below.",
        )

    def test_has_the_same_as_a_table(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path")
        api.advance(25)
        payment_page(tab, payment).page.get_by_text("The same as a table").click()
        table = tab.page.get_by_role("region", name="Timeline, as a table")
        expect(table.get_by_role("columnheader")).to_have_text(
            ["After", "What happens", "Status", "The application", "When"]
        )
        assert [row.split("\t") for row in table.inner_text().splitlines()[1:]] == [
            ["0 s", "Created", "awaiting payment", "-", "past"],
            [
                "5 s",
                "Deposit observed, confirmations 0/16, pending: payment detected",
                "payment detected",
                "-",
                "past",
            ],
            ["7 s", "Confirmations 4/16, confirming", "payment detected", "-", "past"],
            ["9 s", "Confirmations 8/16, confirming", "payment detected", "-", "past"],
            ["11 s", "Confirmations 12/16, confirming", "payment detected", "-", "past"],
            ["13 s", "Confirmations 16/16, finalized: payment finalized", "payment finalized", "-", "past"],
            ["25 s", "settlement pending", "settlement pending", "-", "past"],
            ["30 s", "settlement submitted", "settlement submitted", "-", "to come"],
            ["45 s", "completed", "completed", "-", "to come"],
        ]

    def test_shows_where_the_application_has_read_it_and_where_its_requests_failed(
        self, tab: Tab, api: Sandbox
    ) -> None:
        payment = api.created("happy_path")
        api.payment(payment["id"])
        api.advance(6)
        for fault in ("status=503", None, "delay=1"):  # a late reply is read, too
            headers = {"X-Mock-Fault": fault} if fault else {}
            api.get(f"/v1/payments/{payment['id']}", headers=headers)
        drawn = payment_page(tab, payment).picture
        expect(drawn.get_by_text("Your application: 3 reads, 1 failure")).to_be_attached()
        expect(drawn.locator(".seen circle")).to_have_count(3)
        expect(drawn.locator(".seen .cross title")).to_have_text(
            ["1 read and 1 failure of the application while awaiting payment"]
        )
        tab.page.get_by_text("The same as a table").click()
        seen = tab.page.locator("#table tbody td:nth-child(4)")
        expect(seen).to_have_text(["1 read, 1 failure", "2 reads", "-", "-", "-", "-", "-", "-", "-"])

    def test_does_not_take_the_newest_requests_for_all(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path")
        for _ in range(201):
            api.payment(payment["id"])
        drawn = payment_page(tab, payment).picture
        expect(drawn.get_by_text("Your application: at least 200 reads")).to_be_attached()

    def test_shows_a_rejection(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("asset_mismatch")
        drawn = payment_page(tab, payment).picture
        expect(drawn.get_by_text("Deposit 1: to be rejected")).to_be_attached()
        expect(drawn.locator(".deposit .cross")).to_have_count(1)
        api.move(payment, to="end")
        expect(drawn.get_by_text("Deposit 1: rejected")).to_be_attached()

    def test_names_its_clock_and_how_far_that_is_ahead_of_the_sandbox(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path")
        page = payment_page(tab, payment).page
        expect(page.locator("#own-now")).to_have_text("2030-01-31 12:00:00 UTC")
        expect(page.locator("#ahead")).to_be_empty()
        tab.button("+5 s").click()
        expect(page.locator("#own-now")).to_have_text("2030-01-31 12:00:05 UTC")
        expect(page.locator("#ahead")).to_have_text("5 s ahead of the sandbox")
        expect(page.locator("#now")).to_have_text("2030-01-31 12:00:00 UTC")
        tab.advance(10)
        expect(page.locator("#own-now")).to_have_text("2030-01-31 12:00:15 UTC")
        expect(page.locator("#now")).to_have_text("2030-01-31 12:00:10 UTC")

    def test_has_a_lane_for_each_of_the_first_eight_deposits(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(10):
            api.deposit(payment, 1)
        drawn = payment_page(tab, payment).picture
        expect(drawn.locator("text").filter(has_text=re.compile("^Deposit "))).to_have_count(8)
        expect(drawn.get_by_text("2 more deposits are in the table")).to_be_attached()


class TestFunding:
    @pytest.mark.parametrize(
        ("deposits", "seconds", "expected"),
        [
            ([], 0, (0, 0, DUE, 0)),
            ([HALF], 0, (HALF, 0, HALF, 0)),
            ([HALF], 8, (0, HALF, HALF, 0)),
            ([DUE + 5], 8, (0, DUE + 5, 0, 5)),
        ],
    )
    def test_is_told_in_numbers_and_drawn(
        self, tab: Tab, api: Sandbox, deposits: list[int], seconds: float, expected: tuple[int, ...]
    ) -> None:
        payment = api.created("no_payment_expired")
        for amount in deposits:
            api.deposit(payment, amount)
        if seconds:
            api.advance(seconds)
        pending, finalized, missing, excess = expected
        payment_page(tab, payment)
        assert facts(tab) == {
            "Due": str(DUE),
            "Pending": str(pending),
            "Finalized": str(finalized),
            "Missing": str(missing),
            "Excess": str(excess),
        }
        drawn = tab.page.locator("#funding svg rect")
        whole = max(DUE, pending + finalized)
        for kind, amount in (("pending", pending), ("final", finalized)):
            widths = drawn.and_(tab.page.locator(f".{kind}")).evaluate_all(
                "bars => bars.map(bar => Number(bar.getAttribute('width')))"
            )
            assert sum(widths) == pytest.approx(100 * amount / whole, abs=0.01)
        expect(drawn.and_(tab.page.locator(".excess"))).to_have_count(1 if excess else 0)
        expect(tab.page.locator("#funding dd").first).to_contain_text("1.01 USDT")
