import pytest
from playwright.sync_api import Browser, expect

from tests.support.client import HALF
from tests.support.server import RunningServer
from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.steps import TIMES, Tab, checkout_page, press
from tests.web.pages.sandbox import Sandbox

NO_STORAGE = "Object.defineProperty(window, 'localStorage', { get() { throw new Error('SecurityError') } })"
LOST = "Connection lost. Trying again…"
RECORD_ANNOUNCEMENTS = """() => {
    window.announced = [];
    for (const node of document.querySelectorAll("[role=status], [role=alert], [aria-live]"))
        new MutationObserver(() => node.textContent && announced.push(node.textContent))
            .observe(node, { childList: true, characterData: true, subtree: true });
}"""


@pytest.fixture
def customer(new_tab: NewTab) -> Tab:
    """A tab without a key."""
    return new_tab()


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
            (32, "Paid", [], "Done: Complete"),
        ):
            api.advance(seconds)
            expect(customer.headline).to_have_text(headline)
            expect(customer.page.locator(".measure strong")).to_have_text(confirmations)
            expect(customer.page.locator("[aria-current=step]")).to_have_text([step])
        steps = customer.page.get_by_role("list", name="Progress").get_by_role("listitem")
        expect(steps).to_have_text(["Done: Waiting", "Done: Detected", "Done: Confirmed", "Done: Complete"])
        assert customer.page.evaluate("announced") == ["Payment detected", "Payment received", "Paid"]
        assert customer.kept()
        assert [sent for sent in headers if sent.get("authorization") or sent.get("referer")] == []
        assert [url for url in customer.requested if "/_mock" in url or "/fragments" in url] == []

    def test_asks_for_the_rest_in_texts_to_copy_and_a_link(self, customer: Tab, api: Sandbox) -> None:
        payment = api.created("underpaid_expired")
        customer.page.add_init_script(NO_STORAGE)
        checkout_page(customer, payment).page.get_by_text("Details").click()
        customer.button("Copy amount").focus()
        api.advance(13)
        expect(customer.headline).to_have_text("Part of your payment has arrived")
        expect(customer.page.get_by_text(f"{HALF}")).to_be_visible()  # the details are still open
        expect(customer.button("Copy amount")).to_be_focused()
        address = payment["attempts"][0]["instructions"]["invoice_address"]
        for what, text in (("amount", "0.505"), ("address", address)):
            customer.button(f"Copy {what}").click()
            customer.announced("Copied")
            expect(customer.button("Copied")).to_be_visible()
            assert customer.copied() == text
            expect(customer.button(f"Copy {what}")).to_be_visible()
        customer.page.evaluate("void (navigator.clipboard.writeText = () => Promise.reject())")
        customer.button("Copy amount").click()
        expect(customer.button("Copied")).to_be_focused()
        assert customer.copied() == "0.505"
        uri = api.checkout(payment)["payment_uri"]
        with customer.page.expect_request(uri):  # not stopped by the policy; there is no wallet here
            customer.page.get_by_role("link", name="Open in a wallet (mock)").click()
        customer.requested.remove(uri)
        expect(customer.headline).to_have_text("Part of your payment has arrived")
        api.deposit(payment, HALF)
        expect(customer.headline).to_have_text("Payment detected")
        expect(customer.page.get_by_role("region", name="How to pay")).to_have_count(0)


def test_whoever_holds_the_key_plays_the_customer(customer: Tab, api: Sandbox) -> None:
    payment = api.created("happy_path")
    kept = f'["mk_test_other", "{api.api_key}"]'
    customer.page.add_init_script(f"localStorage.setItem('paymock.keys', '{kept}')")
    customer.resize(390, 844)
    checkout_page(customer, payment)
    expect(customer.button("Pay")).to_be_hidden()
    customer.page.get_by_text("Test tools").click()
    assert customer.page.locator("svg.qr").evaluate("qr => qr.getBoundingClientRect().bottom < 844 - scrollY")
    press(customer, customer.button("Pay"))
    expect(customer.headline).to_have_text("Payment detected")
    expect(customer.page.get_by_text("Pay: the whole amount has arrived.")).to_be_visible()
    customer.page.keyboard.press("Enter")  # the focus has stayed
    customer.announced("the whole amount has arrived")
    customer.button("Wrong asset").click()
    expect(customer.headline).to_have_text("A transfer in another asset arrived")
    customer.button("Next step").click()
    expect(customer.headline).to_have_text("In review")
    expect(customer.page.get_by_text("1.01 USDC (another asset)")).to_be_visible()
    customer.button(f"{TIMES}10").click()
    expect(customer.button(f"{TIMES}10")).to_have_attribute("aria-pressed", "true")
    customer.page.route("**/deposits", lambda route: route.abort())
    customer.button("Half").click()
    expect(customer.page.get_by_role("alert")).to_have_text("The server cannot be reached.")
    customer.forgive("404", "net::ERR")


def test_countdown_follows_the_clock_and_is_not_announced(customer: Tab, api: Sandbox) -> None:
    customer.stop_time()
    left, bar = customer.page.get_by_role("timer"), customer.page.get_by_role("progressbar", name="Time left")
    checkout_page(customer, api.created("no_payment_expired"))
    customer.page.evaluate(RECORD_ANNOUNCEMENTS)
    expect(left).to_have_text("0:30")
    api.speed(10)
    customer.poll()
    expect(customer.page.get_by_text(f"The clock runs at {TIMES}10.")).to_be_visible()
    customer.pass_time(0.5)
    expect(left).to_have_text("0:25")
    assert 24 < bar.evaluate("bar => bar.value") < 26
    api.speed(100)
    customer.poll()
    expect(customer.page.get_by_text(f"The clock runs at {TIMES}100.")).to_be_visible()
    customer.pass_time(0.5)
    expect(left).to_have_text("0:00")  # no more, and the server says when the time is up
    expect(customer.headline).to_have_text("Waiting for your payment")
    api.speed(0)
    customer.poll()
    expect(customer.page.get_by_text("Clock frozen: nothing happens until")).to_be_visible()
    expect(left).to_have_text("0:30")  # the server's own clock has stood still
    api.advance(12)
    customer.poll()
    expect(left).to_have_text("0:18")
    expect(bar).to_have_js_property("value", 18)
    assert customer.page.evaluate("announced") == []


def test_lost_or_silent_server_stops_everything_until_it_is_back(customer: Tab, api: Sandbox) -> None:
    customer.stop_time()
    api.speed(1)
    checkout_page(customer, api.created("no_payment_expired")).keep()
    left, connection = customer.page.locator("#left"), customer.page.locator("#connection")
    customer.page.route("**/checkout/*.json", lambda _: None, times=2)  # silent
    with customer.page.expect_request("**/checkout/*.json"):
        customer.poll()
    customer.pass_time(14)
    expect(connection).to_have_text("")
    with customer.page.expect_request("**/checkout/*.json"):  # once more, at once
        customer.pass_time(1)
    customer.pass_time(15)
    expect(connection).to_have_text(LOST)
    customer.pass_time(2)
    expect(connection).to_have_text("")
    customer.button("Copy amount").focus()
    customer.page.evaluate(RECORD_ANNOUNCEMENTS)
    customer.lose("**/checkout/*.json")
    expect(connection).to_have_text(LOST)
    expect(customer.page).to_have_title(f"{LOST} · paymock")
    stood = left.inner_text()
    for _ in range(3):
        customer.pass_time(4)
    expect(left).to_have_text(stood)
    expect(customer.page.locator("svg.qr")).not_to_be_visible()
    for control in customer.page.locator("main button, main a, main summary").all():
        assert not control.evaluate("node => { node.focus(); return node.matches(':focus') }")
    customer.page.unroute("**/checkout/*.json")
    while connection.inner_text():
        customer.pass_time(4)
    expect(customer.page).to_have_title("Waiting for your payment · paymock")
    expect(customer.page.locator("svg.qr")).to_be_visible()
    expect(customer.button("Copy amount")).to_be_focused()
    assert customer.page.evaluate("announced") == [LOST, "Connected again"]
    assert customer.kept()
    customer.forgive("net::ERR")


def test_without_javascript_it_reloads(browser: Browser, server: RunningServer, api: Sandbox) -> None:
    payment = api.created("happy_path")
    api.speed(60)  # the server's own clock stands still: the page asks every second, and nothing changes
    with browser.new_context(java_script_enabled=False) as context:
        tab = Tab(context.new_page(), server.url).open(f"/checkout/{payment['id']}")
        expect(tab.headline).to_have_text("Waiting for your payment")
        expect(tab.page.get_by_role("button")).to_have_count(0)  # nothing is shown that does not work
        api.advance(7)
        expect(tab.headline).to_have_text("Payment detected")
        tab.page.goto(server.url)
        expect(tab.page.locator("noscript p")).to_contain_text("The dashboard needs JavaScript.")
