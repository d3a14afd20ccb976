"""One payment at `/payments/{id}`: its JSON and requests, and what can be done to it."""

import json
import re
import shutil
import subprocess
from typing import Any

import pytest
from playwright.sync_api import expect

from paymock.resources.payments import MAX_DEPOSITS
from tests.support.client import DUE
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, Tab, payment_page

HALF = DUE // 2


OTHER_ASSET = "BNB"  # the first one of the chain that is not asked for


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


def marked(tab: Tab) -> list[str]:
    """The marked lines of the JSON, without quotes, and without what differs in every run."""
    lines = [re.sub('[",]', "", line).strip() for line in tab.page.locator("#json .new").all_text_contents()]
    return [re.sub("^(id|from_address|tx_hash): .*", r"\1: …", line) for line in lines]


class TestJson:
    def test_is_marked_at_the_lines_that_the_last_step_changed(self, tab: Tab, api: Sandbox) -> None:
        payment_page(tab, api.created("happy_path"))
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
        payment_page(tab, payment)
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
        lines = payment_page(tab, payment).page.locator("#json span").all_text_contents()
        assert "\n".join(lines) == json.dumps(api.payment(payment["id"]), indent=2)


class TestRequests:
    def test_are_those_of_this_payment_as_they_come(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created(order_id="order-1")
        api.created(order_id="order-2")
        payment_page(tab, payment)
        expect(tab.rows()).to_have_count(1)
        expect(tab.rows()).to_contain_text(["POST /v1/payments"])
        api.payment(payment["id"])
        expect(tab.rows()).to_have_count(2)
        expect(tab.rows().first).to_contain_text(f"GET /v1/payments/{payment['id']}")

    def test_can_be_copied_as_curl_and_sent_again(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("late_payment", order_id="it's $HOME", metadata={"note": "'; exit 1; '"})
        payment_page(tab, payment).button("Copy as curl").click()
        tab.announced("Copied")
        command = tab.copied()
        assert f'-H "Authorization: Bearer {api.api_key}"' in command
        shell = shutil.which("sh")
        assert shell is not None
        subprocess.run(
            [shell, "-c", command],
            env={"PATH": "/usr/bin:/bin"},
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
        payment_page(tab, payment).keep()
        steps = tab.page.get_by_role("group", name="This payment only")
        for event in ("confirmations 0/16", "Confirmations 4/16", "Confirmations 8/16"):
            steps.get_by_role("button", name="Next step").click()
            expect(tab.page.locator("#table tr:not(.dim)").last).to_contain_text(event)
        tab.announced("Now payment detected")
        steps.get_by_role("button", name="+5 s").click()
        expect(tab.picture.locator(".now-label")).to_have_text("now: 14 s")
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
        payment_page(tab, payment).button(button).click()
        expect(tab.status).to_have_text("payment detected")
        (deposit,) = api.payment(payment["id"])["attempts"][0]["deposits"]
        assert (deposit["amount"], deposit["asset"]) == (str(amount), asset)
        tab.button("To the end").click()
        expect(tab.status).to_have_text(status.replace("_", " "))

    def test_complete_a_part_with_exactly_what_is_missing(self, tab: Tab, api: Sandbox) -> None:
        payment = api.created("no_payment_expired")
        payment_page(tab, payment).button("Half of due").click()
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
                    "Next step": "no changes remain",
                    "To the end": "no changes remain",
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
        payment_page(tab, payment)
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
        payment_page(tab, payment)
        expect(tab.page.locator("#reasons li")).to_have_text(
            [
                f"{name}: a payment takes a hundred deposits."
                for name in ("Exact", "Half of due", "Over", "Other asset")
            ]
        )


def test_link_leads_there_in_a_new_tab(new_tab: NewTab, tab: Tab, api: Sandbox) -> None:
    payment = api.created(order_id="order-9")
    tab.open().orders().click()
    expect(tab.headline).to_have_text("order-9")
    second = new_tab()
    second.page.goto(tab.page.url)
    expect(second.headline).to_have_text("order-9")
    assert second.page.url == f"{second.origin}/payments/{payment['id']}"


def test_id_is_copied_and_the_checkout_is_a_link_away(tab: Tab, api: Sandbox) -> None:
    payment = api.created()
    payment_page(tab, payment).button("Copy id").click()
    tab.announced("Copied")
    assert tab.copied() == payment["id"]
    address = payment["attempts"][0]["instructions"]["invoice_address"]
    for name, value in (("the amount due in raw units", str(DUE)), ("the address", address)):
        tab.button(f"Copy {name}").click()
        tab.page.wait_for_function(
            "text => navigator.clipboard.readText().then(found => found === text)", arg=value
        )
    tab.button("Copy JSON").click()
    tab.page.wait_for_function("navigator.clipboard.readText().then(found => found.startsWith('{'))")
    assert json.loads(tab.copied()) == api.payment(payment["id"])
    tab.page.get_by_role("link", name="Open its checkout").click()
    expect(tab.headline).to_have_text("Waiting for your payment")


@pytest.mark.parametrize("payment_id", ["nope", f"pay_{'a' * 40}"])
def test_unknown_id_is_said_to_be_unknown(tab: Tab, payment_id: str) -> None:
    tab.open(f"/payments/{payment_id}")
    expect(tab.headline).to_have_text("There is no such payment")
    expect(tab.button("Next step")).to_be_hidden()
    tab.page.get_by_role("link", name="All payments of this sandbox").click()
    expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
    tab.forgive("404")


def test_payment_of_another_key_is_unknown(tab: Tab, new_tab: NewTab, api: Sandbox) -> None:
    payment = api.created(order_id="secret-order")
    stranger = new_tab("mk_test_stranger").open(f"/payments/{payment['id']}")
    expect(stranger.headline).to_have_text("There is no such payment")
    expect(stranger.page.locator("#gone")).to_contain_text("stranger")
    assert "secret-order" not in stranger.page.content()
    stranger.forgive("404")
