"""What a customer sees at `/checkout/{id}`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager
from decimal import Decimal

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
    (at, "Payment detected", f"Confirmations {confirmations}/16")
    for at, confirmations in ((5, 0), (7, 4), (9, 8), (11, 12))
]


RECEIVED = (13, "Payment received", "being paid out to the shop")


COURSES = {
    "happy_path": [PAY, *DETECTED, RECEIVED, (45, "Paid", "The shop has its money")],
    "no_payment_expired": [PAY, (30, "The time is up", "No payment arrived in time")],
    "underpaid_expired": [
        PAY,
        *DETECTED,
        (13, "A part has arrived", "Confirmations 16/16"),
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


STEPS = [
    (0, ["Waiting", "Detected", "Confirmed", "Paid out"], "When your payment arrives, this page shows it"),
    (
        5,
        ["Done: Waiting", "Detected", "Confirmed", "Paid out"],
        "Once the whole amount is final, it is paid out",
    ),
    (8, ["Done: Waiting", "Done: Detected", "Confirmed", "Paid out"], "You need not wait for that"),
    (32, ["Done: Waiting", "Done: Detected", "Done: Confirmed", "Done: Paid out"], ""),
]
"""The steps of the happy path: after how many more seconds, as they are read out, and what comes next."""


RECORD_ANNOUNCEMENTS = """() => {
    window.announced = [];
    for (const node of document.querySelectorAll("[role=status], [role=alert], [aria-live]"))
        new MutationObserver(() => node.textContent && announced.push(node.textContent))
            .observe(node, { childList: true, characterData: true, subtree: true });
}"""


@contextmanager
def losing(tab: Tab) -> Iterator[None]:
    """Within the block, the page, whose time is stopped, does not reach the server."""
    tab.hide()
    tab.pass_time(5)  # then it ends the connection that it has
    tab.page.route("**/events", lambda route: route.abort())
    tab.hide(hidden=False)
    yield
    tab.page.unroute("**/events")
    tab.forgive_lost_connections()


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
            expect(customer.page.get_by_text(BAND)).to_be_visible()
            checkout = api.checkout(payment)
            asks = checkout["view"] in {"pay", "detected"} and checkout["missing"]["raw"] != "0"
            for part in ("Copy amount", "Copy address", "Open in a wallet (mock)", "Time left"):
                expect(shown.get_by_text(part, exact=True)).to_have_count(1 if asks else 0)
            expect(shown.get_by_role("img", name="QR code")).to_have_count(1 if asks else 0)
            assert asks or not PAY_AGAIN.search(shown.inner_text())
        assert customer.kept()

    def test_is_announced_to_those_who_do_not_see_it(self, customer: Tab, api: Sandbox) -> None:
        checkout_page(customer, api.created("happy_path"))
        api.advance(5)
        customer.announced("Payment detected")
        api.advance(2)
        expect(customer.page.get_by_text("4/16")).to_be_visible()
        customer.announced("Payment detected")
        api.advance(38)
        customer.announced("Paid")

    def test_is_a_row_of_steps_of_which_one_is_the_current_one(self, customer: Tab, api: Sandbox) -> None:
        checkout_page(customer, api.created("happy_path"))
        steps = customer.page.get_by_role("list", name="Progress").get_by_role("listitem")
        current = customer.page.locator("[aria-current=step]")
        for seconds, texts, next_text in STEPS:
            if seconds:
                api.advance(seconds)
            expect(steps).to_have_text(texts)
            expect(current).to_have_count(1)
            expect(current).to_contain_text(re.compile("Waiting|Detected|Confirmed|Paid out"))
            expect(customer.page.get_by_text("What happens next:")).to_have_count(1 if next_text else 0)
            expect(customer.page.get_by_role("main")).to_contain_text(next_text)

    def test_shows_its_confirmations_as_a_bar(self, customer: Tab, api: Sandbox) -> None:
        checkout_page(customer, api.created("happy_path"))
        api.advance(9)
        bar = customer.page.get_by_role("progressbar", name="Confirmations")
        expect(bar).to_have_js_property("value", 8)
        expect(bar).to_have_js_property("max", 16)

    def test_asks_for_the_rest_when_a_part_has_arrived(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created("underpaid_expired")
        checkout_page(customer, payment)
        api.advance(13)
        expect(customer.headline).to_have_text("A part has arrived")
        instructions = customer.page.get_by_role("region", name="How to pay")
        expect(instructions).to_contain_text("Still to pay")
        expect(instructions).to_contain_text("0.505 USDT")
        customer.button("Copy amount").click()
        customer.announced("Copied")
        assert customer.copied() == "0.505"
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
        for text in ("Amount to pay", "1.01 USDT", "Tether USD on BNB Smart Chain", address):
            expect(instructions).to_contain_text(text)
        amount, label = (customer.page.get_by_text(text) for text in ("1.01 USDT", "Amount to pay"))
        size = "node => parseFloat(getComputedStyle(node).fontSize)"
        assert amount.first.evaluate(size) > 2 * label.evaluate(size)

    def test_say_more_on_request(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created("underpaid_expired")
        checkout_page(customer, payment)
        order = customer.page.get_by_role("region", name="Order")
        expect(order.locator("dt, dd").filter(visible=True)).to_have_text(
            ["Order id", "order-1001", "Amount due", "1.01\N{NO-BREAK SPACE}USDT"]
        )
        customer.page.get_by_text("Details").click()
        for term, text in {
            "To the shop": "1\N{NO-BREAK SPACE}USDT",
            "Service fee": "0.01\N{NO-BREAK SPACE}USDT",
            "Due, in raw units": f"{DUE}",
            "To pay, in raw units": f"{DUE}",
            "Chain": "BNB Smart Chain (chain id 56)",
            "Payment": payment["id"],
        }.items():
            found = (
                order.locator("dt").get_by_text(term, exact=True).locator("xpath=following-sibling::dd[1]")
            )
            expect(found).to_have_text(text)
            expect(found).to_be_visible()
        api.advance(13)
        expect(customer.headline).to_have_text("A part has arrived")
        expect(order.get_by_text(f"{DUE // 2}")).to_be_visible()

    @pytest.mark.parametrize("what", ["amount", "address"])
    def test_are_copied_and_that_is_announced(self, customer: Tab, api: Sandbox, what: str) -> None:
        payment = api.created()
        checkout_page(customer, payment).button(f"Copy {what}").click()
        expect(customer.page.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
        expect(customer.button("Copied")).to_be_visible()
        address = payment["attempts"][0]["instructions"]["invoice_address"]
        assert customer.copied() == {"amount": "1.01", "address": address}[what]
        expect(customer.button(f"Copy {what}")).to_be_visible()

    @pytest.mark.parametrize("raw", [10**9, 10**30, 1])
    def test_amount_is_copied_as_wallets_take_it(self, customer: Tab, api: Sandbox, raw: int) -> None:
        """Whole tokens, as a plain decimal number without an exponent or separators."""
        payment = api.created(receive__amount=str(raw))
        checkout_page(customer, payment).button("Copy amount").click()
        customer.announced("Copied")
        assert re.fullmatch(r"\d+(\.\d+)?", customer.copied())
        assert Decimal(customer.copied()) * 10**18 == int(api.checkout(payment)["due"]["raw"])

    def test_are_opened_in_a_wallet_by_a_link_that_says_that_it_is_a_mock(
        self, customer: Tab, api: Sandbox
    ) -> None:
        payment = api.created()
        checkout_page(customer, payment)
        link = customer.page.get_by_role("link", name="Open in a wallet (mock)")
        uri = api.checkout(payment)["payment_uri"]
        expect(link).to_have_attribute("href", uri)
        expect(customer.page.get_by_role("region", name="How to pay")).to_contain_text(
            "nobody holds the key of this address. Real funds that are sent there are lost."
        )
        with customer.page.expect_request(uri):  # not stopped by the policy; there is no wallet here
            link.click()
        expect(customer.headline).to_have_text("Waiting for your payment")
        customer.requested.remove(uri)

    def test_address_is_copied_where_the_browser_withholds_the_clipboard(
        self, customer: Tab, api: Sandbox
    ) -> None:
        customer.page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
        payment = api.created()
        button = checkout_page(customer, payment).page.locator("#copy-address")
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
        expect(
            customer.page.get_by_role(
                "img", name=f"QR code: pay 1.01\N{NO-BREAK SPACE}{asset} on BNB Smart Chain"
            )
        ).to_be_visible()


class TestCountdown:
    def test_counts_on_the_clock_of_the_payment_and_stands_still_with_it(
        self, customer: Tab, api: Sandbox
    ) -> None:
        customer.stop_time()
        left, bar = (
            customer.page.get_by_role("timer"),
            customer.page.get_by_role("progressbar", name="Time left"),
        )
        note = customer.page.get_by_text(
            "The clock of this mock stands still: time left does not run, "
            "and nothing happens until it is moved."
        )
        checkout_page(customer, api.created("no_payment_expired"))
        expect(note).to_be_visible()
        for _ in range(2):
            customer.pass_time(10)
            expect(left).to_have_text("0:30")
        api.speed(10)
        expect(note).to_have_count(0)
        expect(
            customer.page.get_by_text("The clock of this mock runs at 10 times real time.")
        ).to_be_visible()
        customer.pass_time(2)
        expect(left).to_have_text("0:10")
        assert 9 < bar.evaluate("bar => bar.value") < 11
        customer.pass_time(2)
        expect(left).to_have_text("0:00")  # no more, and the server says when the time is up
        expect(customer.headline).to_have_text("Waiting for your payment")
        api.speed(0)
        expect(note).to_be_visible()
        expect(left).to_have_text("0:30")  # the server's own clock has stood still
        api.advance(12)
        expect(left).to_have_text("0:18")
        expect(bar).to_have_js_property("value", 18)

    @pytest.mark.parametrize(("seconds", "notes"), [(9, 1), (20, 1), (45, 0)])
    def test_clock_that_stands_still_is_told_until_nothing_comes_any_more(
        self, customer: Tab, api: Sandbox, seconds: float, notes: int
    ) -> None:
        payment = api.created("happy_path")
        api.advance(seconds)
        checkout_page(customer, payment)
        note = "The clock of this mock stands still: nothing happens until it is moved."
        expect(customer.page.get_by_text(note)).to_have_count(notes)

    def test_is_never_announced(self, customer: Tab, api: Sandbox) -> None:
        customer.stop_time()
        api.speed(1)
        checkout_page(customer, api.created("no_payment_expired"))
        customer.page.evaluate(RECORD_ANNOUNCEMENTS)
        left = customer.page.get_by_role("timer")
        before = left.inner_text()
        customer.pass_time(10)
        expect(left).not_to_have_text(before)
        assert customer.page.evaluate("announced") == []
        assert left.evaluate("node => node.closest('[role=status], [role=alert], [aria-live]')") is None


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


class TestOrder:
    def test_characters_that_reverse_text_are_shown_as_code_points(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created(order_id="1\N{RIGHT-TO-LEFT OVERRIDE}4321\N{POP DIRECTIONAL ISOLATE}<b>")
        checkout_page(customer, payment)
        shown = customer.page.locator("bdi")
        expect(shown).to_have_text("1U+202E4321U+2069<b>")
        expect(shown.locator("span")).to_have_text(["U+202E", "U+2069"])


class TestGone:
    def test_payment_that_is_forgotten_meanwhile_makes_way_for_a_message(
        self, customer: Tab, api: Sandbox
    ) -> None:
        customer.stop_time()
        checkout_page(customer, api.created()).keep()
        api.reset()
        expect(customer.page.locator("#connection")).to_have_text("Connection lost. Trying again…")
        customer.pass_time(1)
        expect(customer.page.locator("#headline")).to_have_text("There is no such payment")
        customer.announced("There is no such payment")
        expect(customer.page).to_have_title("There is no such payment · paymock")
        expect(customer.page.locator("#connection")).to_be_empty()
        for gone in ("QR code", "Copy address", "Time left", "Waiting for your payment"):
            expect(customer.page.get_by_text(gone)).to_have_count(0)
        asked = len(customer.requested)
        customer.pass_time(60)
        assert len(customer.requested) == asked
        assert customer.kept()
        customer.forgive("404")

    def test_server_that_goes_away_stops_everything_until_it_is_back(
        self, customer: Tab, api: Sandbox
    ) -> None:
        customer.stop_time()
        api.speed(1)
        payment = api.created("no_payment_expired")
        checkout_page(customer, payment).keep()
        left, connection = customer.page.get_by_role("timer"), customer.page.locator("#connection")
        customer.button("Copy amount").focus()
        customer.page.evaluate(RECORD_ANNOUNCEMENTS)
        with losing(customer):
            expect(connection).to_have_text("Connection lost. Trying again…")
            expect(customer.page).to_have_title("Connection lost. Trying again… · paymock")
            stood = customer.page.locator("#left").inner_text()
            for _ in range(3):
                customer.pass_time(4)
            assert customer.page.locator("#left").inner_text() == stood
            expect(customer.page.locator("svg.qr")).not_to_be_visible()
            for control in customer.page.locator("main button, main a, main summary").all():
                assert not control.evaluate("node => { node.focus(); return node.matches(':focus') }")
        customer.pass_time(4)
        expect(connection).to_be_empty()
        expect(left).to_be_visible()
        expect(customer.page).to_have_title("Waiting for your payment · paymock")
        expect(customer.page.locator("svg.qr")).to_be_visible()
        expect(customer.button("Copy amount")).to_be_focused()
        assert customer.page.evaluate("announced") == ["Connection lost. Trying again…", "Connected again"]
        assert customer.kept()

    def test_connection_that_has_fallen_silent_is_lost(self, customer: Tab, api: Sandbox) -> None:
        customer.stop_time()
        checkout_page(customer, api.created())
        connection = customer.page.locator("#connection")
        expect(customer.headline).to_be_visible()
        customer.pass_time(49)
        expect(connection).to_be_empty()
        customer.pass_time(1)
        expect(connection).to_have_text("Connection lost. Trying again…")
        customer.pass_time(1)
        expect(connection).to_be_empty()

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
