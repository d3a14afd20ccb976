"""One payment at `/payments/{id}`: its timeline, funding, JSON and requests, and what can be done to it."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
from playwright.sync_api import Locator, expect

from paymock.core.payments import MAX_DEPOSITS
from tests.pages.conftest import NewTab
from tests.pages.steps import Sandbox, Tab
from tests.support.client import DUE
from tests.support.contract import Json

HALF = DUE // 2
OTHER_ASSET = "BNB"  # the first one of the chain that is not asked for
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

CHANGED = {
    5: [
        "status: payment_detected",
        "updated_at: 2030-01-31T12:00:05.000Z",
        "status: payment_detected",
        "funding: {",
        f"amount_received_pending: {DUE}",
        "amount_received_finalized: 0",
        "}",
        "deposits: [",
        "{",
        "id: …",
        "status: pending",
        "confirmations: 0",
        "confirmations_required: 16",
        "chain: bsc",
        "asset: USDT",
        f"amount: {DUE}",
        "from_address: …",
        "tx_hash: …",
        "observed_at: 2030-01-31T12:00:05.000Z",
        "}",
        "]",
    ],
    7: ["updated_at: 2030-01-31T12:00:07.000Z", "status: confirming", "confirmations: 4"],
    13: [
        "status: payment_finalized",
        "updated_at: 2030-01-31T12:00:13.000Z",
        "status: payment_finalized",
        "amount_received_pending: 0",
        f"amount_received_finalized: {DUE}",
        "status: finalized",
        "confirmations: 16",
    ],
    45: ["status: completed", "updated_at: 2030-01-31T12:00:45.000Z"],
}
"""What the step in this second changes, without quotes, and without what differs in every run."""


def opened(tab: Tab, payment: Json) -> Tab:
    """The page of the payment, with the payment in it."""
    tab.open(f"/payments/{payment['id']}")
    expect(tab.headline).to_have_text(payment["order_id"])
    return tab


def picture(tab: Tab) -> Locator:
    return tab.page.locator("#picture svg")


def marked(tab: Tab) -> list[str]:
    """The marked lines of the JSON, without quotes, and without what differs in every run."""
    lines = [re.sub('[",]', "", line).strip() for line in tab.page.locator("#json .new").all_text_contents()]
    return [re.sub("^(id|from_address|tx_hash): .*", r"\1: …", line) for line in lines]


def facts(tab: Tab) -> dict[str, str]:
    """What the page says of the funding, by its name, in raw units."""
    names, values = (tab.page.locator(f"#funding {part}").all_text_contents() for part in ("dt", "dd .raw"))
    return {name: value.removesuffix(" raw units") for name, value in zip(names, values, strict=True)}


class TestTimeline:
    def test_is_solid_where_it_is_past_and_dashed_where_it_is_to_come(self, tab: Tab, api: Sandbox) -> None:
        opened(tab, api.created("happy_path"))
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
            expect(picture(tab).locator(".now-label")).to_have_text(f"now: {text}")
            bars = picture(tab).evaluate(BARS)
            assert len(bars) == 1 + 6 + 1  # the window, the statuses, the deposit
            for bar in bars:
                assert bar["solid"] == pytest.approx(max(0, min(bar["now"], bar["to"]) - bar["from"]))
                assert bar["dashed"] == [True, False]

    def test_moves_its_line_with_a_running_clock_and_stops_at_what_only_the_server_can_say(
        self, tab: Tab, api: Sandbox
    ) -> None:
        tab.stop_time()
        api.speed(10)
        opened(tab, api.created("happy_path"))
        line, label = picture(tab).locator("line.now"), picture(tab).locator(".now-label")
        places = []
        for seconds, text in [(0.2, "now: 2 s"), (0.2, "now: 4 s"), (5, "now: 5 s"), (5, "now: 5 s")]:
            tab.pass_time(seconds)
            expect(label).to_have_text(text)
            places.append(float(line.get_attribute("x1") or 0))
        assert places[0] < places[1] < places[2] == places[3]

    def test_stands_still_while_the_clock_does(self, tab: Tab, api: Sandbox) -> None:
        tab.stop_time()
        opened(tab, api.created("happy_path"))
        place = picture(tab).locator("line.now").get_attribute("x1")
        tab.pass_time(60)
        expect(picture(tab).locator(".now-label")).to_have_text("now: 0 s")
        expect(picture(tab).locator("line.now")).to_have_attribute("x1", place or "")
        api.advance(8)
        expect(picture(tab).locator(".now-label")).to_have_text("now: 8 s")

    def test_has_a_tick_for_each_step_of_confirmation(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path")
        api.advance(9)
        lane = picture(opened(tab, payment)).locator("g:has(> circle)")
        expect(lane.locator("text")).to_have_text(["0", "4", "8", "12", "16"])
        expect(lane.locator("circle:not(.future)")).to_have_count(3)
        expect(lane.locator("circle.future")).to_have_count(2)

    def test_names_the_window_the_deposit_and_each_status(self, tab: Tab, api: Sandbox) -> None:
        drawn = picture(opened(tab, api.created("happy_path")))
        for text in ("Window", "closes at 30 s", "Status", "Deposit 1"):
            expect(drawn.locator("text").filter(has_text=text)).to_have_count(1)
        expect(drawn.locator("g:has(> title):not(:has(circle)) > title")).to_have_text(
            [
                "awaiting payment, from 0 s",
                "payment detected, from 5 s",
                "payment finalized, from 13 s",
                "settlement pending, from 25 s",
                "settlement submitted, from 30 s",
                "completed, from 45 s",
            ]
        )
        expect(drawn).to_have_attribute(
            "aria-label",
            "awaiting payment at 0 s; next: Deposit observed, confirmations 0/16, pending: payment_detected, "
            "at 5 s. All steps are in the table below.",
        )

    def test_has_the_same_as_a_table(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path")
        api.advance(25)
        opened(tab, payment).page.get_by_text("The same as a table").click()
        table = tab.page.get_by_role("region", name="Timeline, as a table")
        expect(table.get_by_role("columnheader")).to_have_text(["After", "What happens", "Status", "When"])
        assert [row.split("\t") for row in table.inner_text().splitlines()[1:]] == [
            ["0 s", "Created", "awaiting payment", "past"],
            [
                "5 s",
                "Deposit observed, confirmations 0/16, pending: payment detected",
                "payment detected",
                "past",
            ],
            ["7 s", "Confirmations 4/16, confirming", "payment detected", "past"],
            ["9 s", "Confirmations 8/16, confirming", "payment detected", "past"],
            ["11 s", "Confirmations 12/16, confirming", "payment detected", "past"],
            ["13 s", "Confirmations 16/16, finalized: payment finalized", "payment finalized", "past"],
            ["25 s", "settlement pending", "settlement pending", "past"],
            ["30 s", "settlement submitted", "settlement submitted", "to come"],
            ["45 s", "completed", "completed", "to come"],
        ]

    def test_has_a_lane_for_each_of_the_first_eight_deposits(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(10):
            api.deposit(payment, 1)
        drawn = picture(opened(tab, payment))
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
        opened(tab, payment)
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


class TestJson:
    def test_is_marked_at_the_lines_that_the_last_step_changed(self, tab: Tab, api: Sandbox) -> None:
        opened(tab, api.created("happy_path"))
        expect(tab.page.locator("#json-note")).to_have_text("Nothing has changed since it was created.")
        assert marked(tab) == []
        now = 0
        for seconds, lines in CHANGED.items():
            api.advance(seconds - now)
            now = seconds
            expect(tab.page.locator("#json .new", has_text=f":{seconds:02}.000Z").first).to_be_visible()
            assert marked(tab) == lines
        expect(tab.page.locator("#json-note")).to_have_text("Marked: the lines that the last step changed.")

    def test_is_marked_where_a_value_only_looks_like_one_that_was_elsewhere(
        self, tab: Tab, api: Sandbox
    ) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(2):
            api.deposit(payment, HALF)
            api.move(payment, seconds=2)
        opened(tab, payment)
        assert marked(tab) == [
            "updated_at: 2030-01-31T12:00:04.000Z",
            "confirmations: 8",
            "status: confirming",
            "confirmations: 4",
        ]

    def test_is_what_the_api_answers(self, tab: Tab, api: Sandbox) -> None:
        metadata = {"__proto__": "a", "none": "", 'quoted "\\': "<b>"}
        payment = api.created("happy_path", metadata=metadata)
        api.advance(13)
        lines = opened(tab, payment).page.locator("#json span").all_text_contents()
        assert "\n".join(lines) == json.dumps(api.payment(payment["id"]), indent=2)


class TestRequests:
    def test_are_those_of_this_payment_as_they_come(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created(order_id="order-1")
        api.created(order_id="order-2")
        opened(tab, payment)
        expect(tab.rows()).to_have_count(1)
        expect(tab.rows()).to_contain_text(["POST /v1/payments"])
        api.payment(payment["id"])
        expect(tab.rows()).to_have_count(2)
        expect(tab.rows().first).to_contain_text(f"GET /v1/payments/{payment['id']}")

    def test_can_be_copied_as_curl_without_the_key_and_sent_again(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("late_payment", order_id="it's $HOME", metadata={"note": "'; exit 1; '"})
        opened(tab, payment).button("Copy as curl").click()
        tab.announced("Copied")
        command = tab.copied()
        assert api.api_key not in command
        assert '-H "Authorization: Bearer $PAYMOCK_API_KEY"' in command
        shell = shutil.which("sh")
        assert shell is not None
        subprocess.run(
            [shell, "-c", command],
            env={"PATH": "/usr/bin:/bin", "PAYMOCK_API_KEY": api.api_key},
            capture_output=True,
            check=True,
        )
        same = ("order_id", "receive", "settlement", "pay_with", "refund_to", "metadata", "scenario")
        again, first = ({name: one[name] for name in same} for one in api.payments())
        assert again == first
        assert again["scenario"] == "late_payment"


class TestControls:
    def test_take_it_step_by_step_and_to_its_end(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("happy_path")
        other = api.created("happy_path", order_id="another")
        opened(tab, payment).keep()
        steps = tab.page.get_by_role("group", name="Time")
        for event in ("confirmations 0/16", "Confirmations 4/16", "Confirmations 8/16"):
            steps.get_by_role("button", name="Next step").click()
            expect(tab.page.locator("#table tr:not(.ahead)").last).to_contain_text(event)
        tab.announced("Now payment detected")
        steps.get_by_role("button", name="+5 s").click()
        expect(picture(tab).locator(".now-label")).to_have_text("now: 14 s")
        expect(tab.status).to_have_text("payment finalized")
        steps.get_by_role("button", name="To the end").click()
        expect(tab.status).to_have_text("completed")
        tab.announced("Now completed")
        assert tab.kept()
        assert api.payment(other["id"])["status"] == "awaiting_payment"

    @pytest.mark.parametrize(
        ("button", "amount", "asset", "status"),
        [
            ("Exact", DUE, "USDT", "completed"),
            ("Half of due", HALF, "USDT", "underpaid_expired"),
            ("Over", DUE + DUE // 10, "USDT", "overpaid_review"),
            ("Other asset", DUE, OTHER_ASSET, "manual_review"),
        ],
    )
    def test_make_deposits(
        self, tab: Tab, api: Sandbox, button: str, amount: int, asset: str, status: str
    ) -> None:
        payment = api.created("no_payment_expired")
        opened(tab, payment).button(button).click()
        expect(tab.status).to_have_text("payment detected")
        (deposit,) = api.payment(payment["id"])["attempts"][0]["deposits"]
        assert (deposit["amount"], deposit["asset"]) == (str(amount), asset)
        tab.button("To the end").click()
        expect(tab.status).to_have_text(status.replace("_", " "))

    def test_complete_a_part_with_exactly_what_is_missing(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("no_payment_expired")
        opened(tab, payment).button("Half of due").click()
        expect(tab.status).to_have_text("payment detected")
        tab.button("Exact").click()
        expect(tab.page.locator("#reasons")).to_contain_text("Exact: nothing is missing.")
        deposits = api.payment(payment["id"])["attempts"][0]["deposits"]
        assert sum(int(deposit["amount"]) for deposit in deposits) == DUE

    @pytest.mark.parametrize(
        ("prepare", "impossible"),
        [
            ({}, {}),
            ({"to": "payment_detected"}, {"Exact": "nothing is missing"}),
            (
                {"to": "end"},
                {
                    "Next step": "nothing lies ahead",
                    "To the end": "nothing lies ahead",
                    "Exact": "nothing is missing",
                },
            ),
        ],
    )
    def test_that_are_impossible_say_why_and_do_nothing(
        self, tab: Tab, api: Sandbox, prepare: dict[str, Any], impossible: dict[str, str]
    ) -> None:
        payment = api.created("happy_path")
        if prepare:
            api.move(payment, **prepare)
        opened(tab, payment)
        before = api.get(f"/_mock/payments/{payment['id']}").json()
        expect(tab.page.locator("#reasons li")).to_have_text(
            [f"{name}: {reason}." for name, reason in impossible.items()]
        )
        for button in tab.page.get_by_role("region", name="Controls").get_by_role("button").all():
            name = button.inner_text()
            expect(button).to_have_attribute("aria-disabled", str(name in impossible).lower())
            if name in impossible:
                button.click(force=True)
                tab.announced(impossible[name])
                expect(button).to_be_focused()
        assert api.get(f"/_mock/payments/{payment['id']}").json() == before
        assert [url for url in tab.requested if url.endswith(("/advance", "/deposits"))] == []

    def test_take_no_deposit_more_when_there_is_no_room(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(MAX_DEPOSITS):
            api.deposit(payment, 1)
        opened(tab, payment)
        expect(tab.page.locator("#reasons li")).to_have_text(
            [
                f"{name}: a payment takes a hundred deposits."
                for name in ("Exact", "Half of due", "Over", "Other asset")
            ]
        )


def test_link_leads_there_in_another_tab_of_the_same_sandbox(new_tab: NewTab, tab: Tab, api: Sandbox) -> None:
    payment = api.created(order_id="order-9")
    tab.open().orders().click()
    expect(tab.headline).to_have_text("order-9")
    second = new_tab()
    second.page.goto(tab.page.url)
    second.page.get_by_label("API key").fill(api.api_key)
    second.page.keyboard.press("Enter")
    expect(second.headline).to_have_text("order-9")
    assert second.page.url == f"{second.origin}/payments/{payment['id']}"


def test_id_is_copied_and_the_checkout_is_a_link_away(tab: Tab, api: Sandbox) -> None:
    payment = api.created()
    opened(tab, payment).button("Copy id").click()
    tab.announced("Copied")
    assert tab.copied() == payment["id"]
    tab.page.get_by_role("link", name="Open its checkout").click()
    expect(tab.headline).to_have_text("Waiting for your payment")


@pytest.mark.parametrize("payment_id", ["nope", f"pay_{'a' * 40}"])
def test_unknown_id_is_said_to_be_unknown(tab: Tab, payment_id: str) -> None:
    tab.open(f"/payments/{payment_id}")
    expect(tab.problem).to_contain_text("This API key has no payment with that id.")
    expect(tab.headline).to_have_text("Payment")
    expect(tab.button("Next step")).to_be_hidden()
    tab.forgive("404")


def test_payment_of_another_key_is_unknown(tab: Tab, new_tab: NewTab, api: Sandbox) -> None:
    payment = api.created(order_id="secret-order")
    stranger = new_tab("mk_test_stranger").open(f"/payments/{payment['id']}")
    expect(stranger.problem).to_contain_text("This API key has no payment with that id.")
    assert "secret-order" not in stranger.page.content()
    stranger.forgive("404")
