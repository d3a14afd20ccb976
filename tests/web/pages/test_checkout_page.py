"""What a customer sees at `/checkout/{id}`."""

import re

import pytest
import segno
from playwright.sync_api import expect

from paymock.resources.checkout import VIEWS
from paymock.rules.scenarios import SCENARIOS
from tests.support.client import DUE
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, Tab, checkout_page

PAY = (0, "Waiting for your payment", "Send the exact amount")


DETECTED = [
    (at, "Payment detected", f"{confirmations}/16 confirmations")
    for at, confirmations in ((5, 0), (7, 4), (9, 8), (11, 12))
]


RECEIVED = (13, "Payment received", "being paid out to the shop")


COURSES = {
    "happy_path": [PAY, *DETECTED, RECEIVED, (45, "Paid", "The shop has its money")],
    "no_payment_expired": [PAY, (30, "The time is up", "No payment arrived in time")],
    "underpaid_expired": [
        PAY,
        *DETECTED,
        (13, "A part has arrived", "16/16 confirmations"),
        (30, "Partially paid, and the time is up", "Do not send the rest now"),
    ],
    "overpaid_review": [PAY, *DETECTED, (13, "In review: more than was due", "there is nothing to do")],
    "asset_mismatch": [PAY, DETECTED[0], (7, "In review", "being looked into")],
    "late_payment": [
        PAY,
        (30, "The time is up", "No payment arrived in time"),
        (35, "In review", "nothing to do"),
    ],
    "settlement_failed": [
        PAY,
        *DETECTED,
        RECEIVED,
        (45, "Your payment arrived; the payout failed", "There is nothing for you to do"),
    ],
    "manual_review": [PAY, *DETECTED, RECEIVED, (25, "In review", "being looked into")],
}
"""What the customer is told in each scenario: from which second on, in which words."""


BAND = "Mock: do not send real funds"


PAY_AGAIN = re.compile(r"(?<!not )\b(send|pay again|pay now|retry|try again)\b", re.IGNORECASE)
"""What must not be said to somebody who has paid, or whose time is up."""


@pytest.fixture
def customer(new_tab: NewTab) -> Tab:
    """A tab without a key."""
    return new_tab()


class TestCourse:
    def test_is_told_here_for_every_scenario_and_in_every_view(self) -> None:
        told = {headline for course in COURSES.values() for _, headline, _ in course}
        assert {*COURSES} == {*SCENARIOS}
        assert {view.headline for view in VIEWS.values()} <= told

    @pytest.mark.parametrize("scenario", COURSES)
    def test_is_shown_as_it_happens(self, customer: Tab, api: Sandbox, scenario: str) -> None:
        payment = api.created(scenario)
        checkout_page(customer, payment).keep()
        now = 0
        for at, headline, words in COURSES[scenario]:
            if at:
                api.advance(at - now)
            now = at
            expect(customer.headline).to_have_text(headline)
            expect(customer.page.get_by_role("main")).to_contain_text(words)
            expect(customer.page).to_have_title(f"{headline} · paymock")
            shown = customer.page.get_by_role("main")
            expect(shown.get_by_text(BAND)).to_be_visible()
            checkout = api.checkout(payment)
            asks = checkout["view"] in {"pay", "detected"} and checkout["missing"]["raw"] != "0"
            for part in ("Copy the address", "How to pay", "QR code", "Time left"):
                expect(shown.get_by_text(part)).to_have_count(1 if asks else 0)
            assert asks or not PAY_AGAIN.search(shown.inner_text().replace(BAND, ""))
        assert customer.kept()

    def test_is_announced_to_those_who_do_not_see_it(self, customer: Tab, api: Sandbox) -> None:
        checkout_page(customer, api.created("happy_path"))
        api.advance(5)
        customer.announced("Payment detected")
        api.advance(2)
        expect(customer.page.get_by_text("4/16 confirmations")).to_be_visible()
        customer.announced("Payment detected")
        api.advance(38)
        customer.announced("Paid")

    def test_asks_for_the_rest_when_a_part_has_arrived(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created("underpaid_expired")
        checkout_page(customer, payment)
        api.advance(13)
        expect(customer.headline).to_have_text("A part has arrived")
        instructions = customer.page.get_by_role("region", name="How to pay")
        expect(instructions).to_contain_text("Still to pay0.505 USDT")
        assert api.checkout(payment)["payment_uri"].endswith(f"uint256={DUE // 2}")
        api.deposit(payment, DUE // 2)
        expect(customer.headline).to_have_text("Payment detected")
        expect(instructions).to_have_count(0)
        api.advance(8)
        expect(customer.headline).to_have_text("Payment received")


class TestInstructions:
    def test_say_what_to_send_where(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created()
        checkout_page(customer, payment)
        address = payment["attempts"][0]["instructions"]["invoice_address"]
        instructions = customer.page.get_by_role("region", name="How to pay")
        for text in ("1.01 USDT", f"{DUE} raw units", "BNB Smart Chain (56)", "Tether USD (USDT)", address):
            expect(instructions).to_contain_text(text.replace(" USDT", "\N{NO-BREAK SPACE}USDT", 1))
        amounts = customer.page.get_by_role("region", name="Order order-1001")
        for text in ("To the shop1 USDT", "Service fee0.01 USDT", "10000000000000000 raw units"):
            expect(amounts).to_contain_text(text)

    def test_address_is_copied_and_that_is_announced(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created()
        checkout_page(customer, payment).button("Copy the address").click()
        expect(customer.page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
        expect(customer.button("Copied")).to_be_visible()
        assert customer.copied() == payment["attempts"][0]["instructions"]["invoice_address"]
        expect(customer.button("Copy the address")).to_be_visible()

    def test_address_is_copied_where_the_browser_withholds_the_clipboard(
        self, customer: Tab, api: Sandbox
    ) -> None:
        customer.page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
        payment = api.created()
        button = checkout_page(customer, payment).page.locator("#copy")
        button.click()
        customer.announced("Copied")
        assert customer.copied() == payment["attempts"][0]["instructions"]["invoice_address"]
        expect(button).to_be_focused()

    @pytest.mark.parametrize("asset", ["USDT", "BNB"])
    def test_qr_code_asks_a_wallet_for_the_same(self, customer: Tab, api: Sandbox, asset: str) -> None:
        payment = api.created(receive__asset=asset, pay_with=[{"chain": "bsc", "asset": asset}])
        checkout = api.checkout(payment)
        address = payment["attempts"][0]["instructions"]["invoice_address"]
        token = checkout["asset"].get("contract_address")
        assert checkout["payment_uri"] == (
            f"ethereum:{token}@56/transfer?address={address}&uint256={DUE}"
            if token
            else f"ethereum:{address}@56?value={DUE}"
        )
        drawn = checkout_page(customer, payment).page.locator("svg.qr path").all()
        expected = segno.make(checkout["payment_uri"], error="m").svg_inline(border=4, lineclass=None)
        assert drawn[-1].get_attribute("d") == re.findall(r' d="([^"]+)"', expected)[-1]
        expect(customer.page.get_by_role("img", name="QR code")).to_be_visible()
        expect(customer.page.get_by_role("figure")).to_contain_text(
            f"The QR code asks a wallet for the same: 1.01 {asset} on BNB Smart Chain to the address above."
        )


class TestCountdown:
    def test_counts_on_the_clock_of_the_payment_and_stands_still_with_it(
        self, customer: Tab, api: Sandbox
    ) -> None:
        customer.stop_time()
        left, note = customer.page.get_by_role("timer"), customer.page.get_by_text("the clock is frozen")
        checkout_page(customer, api.created("no_payment_expired"))
        expect(note).to_be_visible()
        for _ in range(2):
            customer.pass_time(10)
            expect(left).to_have_text("0:30")
        api.speed(10)
        expect(note).to_have_count(0)
        customer.pass_time(2)
        expect(left).to_have_text("0:10")
        customer.pass_time(2)
        expect(left).to_have_text("0:00")  # no more, and the server says when the time is up
        expect(customer.headline).to_have_text("Waiting for your payment")
        api.speed(0)
        expect(note).to_be_visible()
        expect(left).to_have_text("0:30")  # the server's own clock has stood still
        api.advance(12)
        expect(left).to_have_text("0:18")


class TestPrivacy:
    def test_nothing_private_is_shown(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created(metadata={"customer_id": "private-metadata"}, expires_at="2098-01-31T12:30:00Z")
        checkout_page(customer, payment)
        secrets = (
            "private-metadata",
            "customer_id",
            "2098-01-31",
            payment["receive"]["address"],
            payment["refund_to"]["address"],
            api.api_key,
            payment["attempts"][0]["id"],
        )
        shown = customer.page.content() + str(api.checkout(payment))
        assert [secret for secret in secrets if secret.lower() in shown.lower()] == []

    def test_no_key_is_asked_for_or_sent(self, customer: Tab, api: Sandbox) -> None:
        headers: list[dict[str, str]] = []
        customer.page.on("request", lambda request: headers.append(request.headers))
        checkout_page(customer, api.created())
        assert [sent for sent in headers if sent.get("authorization") or sent.get("referer")] == []
        expect(customer.page.get_by_role("textbox")).to_have_count(0)


class TestGone:
    def test_payment_that_is_forgotten_meanwhile_is_said_to_be_gone(
        self, customer: Tab, api: Sandbox
    ) -> None:
        customer.stop_time()
        checkout_page(customer, api.created())
        api.reset()
        said = customer.page.get_by_role("status").first
        expect(said).to_have_text("Not connected; trying again.")
        customer.pass_time(1)
        expect(said).to_have_text("This payment is no longer there.")
        asked = len(customer.requested)
        customer.pass_time(60)
        expect(said).to_have_text("This payment is no longer there.")
        assert len(customer.requested) == asked
        customer.page.reload()
        expect(customer.headline).to_have_text("There is no such payment")
        customer.forgive("404")

    @pytest.mark.parametrize("payment_id", ["nope", f"pay_{'a' * 40}"])
    def test_unknown_id_is_said_to_be_unknown(self, customer: Tab, payment_id: str) -> None:
        reply = customer.page.goto(f"{customer.origin}/checkout/{payment_id}")
        assert reply is not None
        assert reply.status == 404
        expect(customer.headline).to_have_text("There is no such payment")
        expect(
            customer.page.get_by_text("It may be mistyped, or its sandbox has been reset.")
        ).to_be_visible()
        expect(customer.page.get_by_text(BAND)).to_be_visible()
        customer.forgive("404")
