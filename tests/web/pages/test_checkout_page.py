"""What a customer sees at `/checkout/{id}`."""

import re
from collections.abc import Iterator
from contextlib import contextmanager

import pytest
import segno
from playwright.sync_api import expect

from paymock.rules.scenarios import SCENARIOS
from tests.support.client import DUE, HALF
from tests.support.contract import Json
from tests.support.views import SHOWN
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, Tab, checkout_page, plain

PAY_AGAIN = re.compile(r"(?<!not )\b(send|pay again|pay now|retry|try again)\b", re.IGNORECASE)
"""What must not be said to somebody who has paid, or whose time is up."""

FROZEN = "The clock of this mock stands still: nothing happens until it is moved."
FROZEN_WINDOW = (
    "The clock of this mock stands still: time left does not run, and nothing happens until it is moved."
)
LOST = "Connection lost. Trying again…"
RECORD_ANNOUNCEMENTS = """() => {
    window.announced = [];
    for (const node of document.querySelectorAll("[role=status], [role=alert], [aria-live]"))
        new MutationObserver(() => node.textContent && announced.push(node.textContent))
            .observe(node, { childList: true, characterData: true, subtree: true });
}"""


def html_of(api: Sandbox, payment: Json) -> str:
    """The page as the server renders it."""
    return api.get(f"/checkout/{payment['id']}").text


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


class TestHtml:
    """The page as the server renders it, without a browser."""

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_asks_for_what_is_missing_and_for_nothing_later(self, api: Sandbox, scenario: str) -> None:
        payment = api.created(scenario)
        now = 0
        for at, _, headline, final in SHOWN[scenario]:
            if at:
                api.advance(at - now)
            now = at
            html, checkout = html_of(api, payment), api.checkout(payment)
            assert f"<title>{headline} · paymock</title>" in html
            assert f'<h1 id="headline">{headline}</h1>' in html
            asks = checkout["view"] in {"pay", "detected"} and checkout["missing"]["raw"] != "0"
            for part in ("Copy amount", "Copy address", "Open in a wallet (mock)", "Time left<", "QR code: "):
                assert (part in html) is asks
            main = plain(html.partition("<main")[2])
            assert checkout["explanation"] in main
            assert ("What happens next:" in main) is not final
            assert asks or not PAY_AGAIN.search(main)
            assert "Mock: do not send real funds" in html

    @pytest.mark.parametrize("asset", ["USDT", "BNB"])
    @pytest.mark.parametrize("raw", ["1000000000000000000", "1"])
    def test_says_what_to_send_in_words_and_as_a_qr_code(self, api: Sandbox, asset: str, raw: str) -> None:
        pay_with = [{"chain": "bsc", "asset": asset}]
        payment = api.created(receive__asset=asset, receive__amount=raw, pay_with=pay_with)
        html, checkout = html_of(api, payment), api.checkout(payment)
        address = payment["attempts"][0]["instructions"]["invoice_address"]
        tokens = {"1": "0.000000000000000002", "1000000000000000000": "1.01"}[raw]
        assert f'data-copy="{tokens}"' in html
        assert f'data-copy="{address}"' in html
        assert f'href="{checkout["payment_uri"].replace("&", "&amp;")}"' in html
        assert f'aria-label="QR code: pay {tokens}&nbsp;{asset} on BNB Smart Chain"' in html
        qr_code = segno.make(checkout["payment_uri"], error="m").svg_inline(border=4, lineclass=None)
        assert re.findall(r' d="([^"]+)"', qr_code)[-1] in html
        for text in (
            f"Amount to pay Copy amount {tokens} {asset}",
            "nobody holds the key of this address. Real funds that are sent there are lost.",
            f"Order id order-1001 Amount due {tokens} {asset} Details",
            f"To pay, in raw units {checkout['due']['raw']} Due, in raw units {checkout['due']['raw']}",
            f"Chain BNB Smart Chain (chain id 56) Payment {payment['id']}",
        ):
            assert text in plain(html)

    def test_shows_the_parts_of_the_amount(self, api: Sandbox) -> None:
        payment = api.created("underpaid_expired")
        api.advance(13)
        text = plain(html_of(api, payment))
        for part in (
            "Still to pay Copy amount 0.505 USDT",
            "Amount due 1.01 USDT Received 0.505 USDT",
            "To the shop 1 USDT Service fee 0.01 USDT",
            f"To pay, in raw units {HALF} Due, in raw units {DUE}",
        ):
            assert part in text

    @pytest.mark.parametrize(
        ("speed", "seconds", "note", "refresh"),
        [
            (0, 0, FROZEN_WINDOW, "10"),
            (0, 9, FROZEN, "10"),
            (0, 45, "", None),
            (1, 2, "", "4"),
            (1, 13, "", "10"),
            (60, 0, "The clock of this mock runs at 60 times real time.", "1"),
            (1, 45, "", None),
        ],
    )
    def test_tells_of_the_clock_and_when_to_ask_again_without_javascript(
        self, api: Sandbox, speed: float, seconds: float, note: str, refresh: str | None
    ) -> None:
        payment = api.created("happy_path")
        if seconds:
            api.move(payment, seconds=seconds)
        api.speed(speed)
        html = html_of(api, payment)
        assert re.findall("The clock of this mock [^<]*", html) == ([note] if note else [])
        found = re.findall('<noscript><meta http-equiv="refresh" content="([0-9]+)"></noscript>', html)
        assert found == ([refresh] if refresh else [])


class TestCourse:
    def test_is_shown_and_announced_as_it_happens(self, customer: Tab, api: Sandbox) -> None:
        headers: list[dict[str, str]] = []
        customer.page.on("request", lambda request: headers.append(request.headers))
        checkout_page(customer, api.created("happy_path")).keep()
        customer.page.evaluate(RECORD_ANNOUNCEMENTS)
        for seconds, headline, confirmations, step in (
            (5, "Payment detected", ["0/16"], "Detected"),
            (2, "Payment detected", ["4/16"], "Detected"),
            (6, "Payment received", [], "Confirmed"),
            (32, "Paid", [], "Done: Paid out"),
        ):
            api.advance(seconds)
            expect(customer.headline).to_have_text(headline)
            expect(customer.page).to_have_title(f"{headline} · paymock")
            expect(customer.page.locator(".measure strong")).to_have_text(confirmations)
            expect(customer.page.locator("[aria-current=step]")).to_have_text([step])
        steps = customer.page.get_by_role("list", name="Progress").get_by_role("listitem")
        expect(steps).to_have_text(["Done: Waiting", "Done: Detected", "Done: Confirmed", "Done: Paid out"])
        assert customer.page.evaluate("announced") == ["Payment detected", "Payment received", "Paid"]
        assert customer.kept()
        assert [sent for sent in headers if sent.get("authorization") or sent.get("referer")] == []
        assert [url for url in customer.requested if "/_mock" in url or "/fragments" in url] == []

    def test_asks_for_the_rest_when_a_part_has_arrived(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created("underpaid_expired")
        checkout_page(customer, payment).page.get_by_text("Details").click()
        customer.button("Copy amount").focus()
        api.advance(13)
        expect(customer.headline).to_have_text("A part has arrived")
        expect(customer.page.get_by_text(f"{HALF}")).to_be_visible()  # the details are still open
        expect(customer.button("Copy amount")).to_be_focused()
        customer.button("Copy amount").click()
        customer.announced("Copied")
        assert customer.copied() == "0.505"
        api.deposit(payment, HALF)
        expect(customer.headline).to_have_text("Payment detected")
        expect(customer.page.get_by_role("region", name="How to pay")).to_have_count(0)


class TestInstructions:
    def test_are_copied_and_opened_in_a_wallet(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created()
        checkout_page(customer, payment)
        address = payment["attempts"][0]["instructions"]["invoice_address"]
        for what, text in (("amount", "1.01"), ("address", address)):
            customer.button(f"Copy {what}").click()
            customer.announced("Copied")
            expect(customer.button("Copied")).to_be_visible()
            assert customer.copied() == text
            expect(customer.button(f"Copy {what}")).to_be_visible()
        uri = api.checkout(payment)["payment_uri"]
        with customer.page.expect_request(uri):  # not stopped by the policy; there is no wallet here
            customer.page.get_by_role("link", name="Open in a wallet (mock)").click()
        customer.requested.remove(uri)
        expect(customer.headline).to_have_text("Waiting for your payment")

    def test_are_copied_where_the_browser_withholds_the_clipboard(self, customer: Tab, api: Sandbox) -> None:
        customer.page.add_init_script("navigator.clipboard.writeText = () => Promise.reject(new Error('no'))")
        payment = api.created()
        button = checkout_page(customer, payment).page.locator("#copy-address")
        button.click()
        customer.announced("Copied")
        assert customer.copied() == payment["attempts"][0]["instructions"]["invoice_address"]
        expect(button).to_be_focused()


def test_countdown_follows_the_clock_and_is_not_announced(customer: Tab, api: Sandbox) -> None:
    customer.stop_time()
    left, bar = customer.page.get_by_role("timer"), customer.page.get_by_role("progressbar", name="Time left")
    checkout_page(customer, api.created("no_payment_expired"))
    customer.page.evaluate(RECORD_ANNOUNCEMENTS)
    customer.pass_time(10)
    expect(left).to_have_text("0:30")
    api.speed(10)
    expect(customer.page.get_by_text("The clock of this mock runs at 10 times real time.")).to_be_visible()
    customer.pass_time(2)
    expect(left).to_have_text("0:10")
    assert 9 < bar.evaluate("bar => bar.value") < 11
    customer.pass_time(2)
    expect(left).to_have_text("0:00")  # no more, and the server says when the time is up
    expect(customer.headline).to_have_text("Waiting for your payment")
    api.speed(0)
    expect(customer.page.get_by_text(FROZEN_WINDOW)).to_be_visible()
    expect(left).to_have_text("0:30")  # the server's own clock has stood still
    api.advance(12)
    expect(left).to_have_text("0:18")
    expect(bar).to_have_js_property("value", 18)
    assert customer.page.evaluate("announced") == []


class TestGone:
    def test_forgotten_payment_makes_way_for_a_message(self, customer: Tab, api: Sandbox) -> None:
        customer.stop_time()
        checkout_page(customer, api.created()).keep()
        assert api.post("/_mock/reset").status_code == 204
        expect(customer.page.locator("#connection")).to_have_text(LOST)
        customer.pass_time(1)
        customer.announced("There is no such payment")
        expect(customer.headline).to_have_text("There is no such payment")
        expect(customer.page).to_have_title("There is no such payment · paymock")
        expect(customer.page.get_by_text("Copy address")).to_have_count(0)
        asked = len(customer.requested)
        customer.pass_time(60)
        assert len(customer.requested) == asked
        assert customer.kept()
        customer.forgive("404")

    def test_lost_server_stops_everything_until_it_is_back(self, customer: Tab, api: Sandbox) -> None:
        customer.stop_time()
        api.speed(1)
        checkout_page(customer, api.created("no_payment_expired")).keep()
        left, connection = customer.page.locator("#left"), customer.page.locator("#connection")
        customer.button("Copy amount").focus()
        customer.page.evaluate(RECORD_ANNOUNCEMENTS)
        with losing(customer):
            expect(connection).to_have_text(LOST)
            expect(customer.page).to_have_title(f"{LOST} · paymock")
            stood = left.inner_text()
            for _ in range(3):
                customer.pass_time(4)
            expect(left).to_have_text(stood)
            expect(customer.page.locator("svg.qr")).not_to_be_visible()
            for control in customer.page.locator("main button, main a, main summary").all():
                assert not control.evaluate("node => { node.focus(); return node.matches(':focus') }")
        customer.pass_time(4)
        expect(connection).to_be_empty()
        expect(customer.page).to_have_title("Waiting for your payment · paymock")
        expect(customer.page.locator("svg.qr")).to_be_visible()
        expect(customer.button("Copy amount")).to_be_focused()
        assert customer.page.evaluate("announced") == [LOST, "Connected again"]
        assert customer.kept()

    def test_connection_that_has_fallen_silent_is_lost(self, customer: Tab, api: Sandbox) -> None:
        customer.stop_time()
        checkout_page(customer, api.created())
        connection = customer.page.locator("#connection")
        customer.pass_time(49)
        expect(connection).to_be_empty()
        customer.pass_time(1)
        expect(connection).to_have_text(LOST)
        customer.pass_time(1)
        expect(connection).to_be_empty()
