import re
import shutil
import threading
from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, Page, expect, sync_playwright
from werkzeug.serving import make_server

from paymock.testing import Sandbox, ServerHandle, serve
from server import create_app, payment_service


@pytest.fixture(scope="module")
def browser() -> Iterator[Browser]:
    """The system's Chromium; without one, that of `playwright install chromium`."""
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(
            executable_path=shutil.which("chromium"), args=["--no-sandbox", "--disable-gpu"]
        ) as browser,
    ):
        yield browser


@pytest.fixture(scope="session")
def paymock_server() -> Iterator[ServerHandle]:
    """A server whose checkout the pages of the shop may embed."""
    with serve(frame_ancestors=("http://127.0.0.1:*",)) as server:
        yield server


@pytest.fixture
def shop(paymock: Sandbox) -> Iterator[str]:
    """The URL of the shop."""
    with payment_service(paymock.url, paymock.api_key) as service:
        server = make_server("127.0.0.1", 0, create_app(service), threaded=True)
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{server.server_port}"
        server.shutdown()
        thread.join()
        server.server_close()


@pytest.fixture
def page(browser: Browser, shop: str) -> Iterator[Page]:
    with browser.new_page() as page:
        page.goto(shop)
        yield page


def test_a_customer_sees_the_payment_arrive(page: Page, paymock: Sandbox) -> None:
    page.get_by_role("button", name="Buy").click()
    expect(page.get_by_role("status")).to_have_text("Waiting for your payment")
    [payment] = paymock.payments()
    instructions = payment["attempts"][0]["instructions"]
    expect(page.locator("#pay")).to_contain_text(
        f"25.25 USDT on BNB Smart Chain to {instructions['invoice_address']}"
    )
    expect(page.locator("#left")).to_have_text("30")

    for seconds, headline in ((5, "Payment detected"), (8, "Payment received"), (32, "Paid")):
        paymock.advance(seconds)
        expect(page.get_by_role("status")).to_have_text(headline)
    expect(page.locator("#pay")).to_be_hidden()
    expect(page.locator("#received")).to_have_text("25.25 USDT")


def test_a_customer_who_does_not_pay_is_told_so(page: Page, paymock: Sandbox) -> None:
    paymock.next("no_payment_expired")
    page.get_by_role("button", name="Buy").click()
    expect(page.locator("#left")).to_have_text("30")
    paymock.advance(30)
    expect(page.get_by_role("status")).to_have_text("The time is up")


def test_a_customer_who_tries_again_has_one_payment(page: Page, paymock: Sandbox) -> None:
    paymock.fault("drop", operation="createPayment")
    page.get_by_role("button", name="Buy").click()
    page.get_by_role("button", name="Try again").click()
    expect(page.get_by_role("status")).to_have_text("Waiting for your payment")
    assert len(paymock.payments()) == 1


def test_the_countdown_runs_when_time_does(page: Page, paymock: Sandbox) -> None:
    paymock.next("no_payment_expired")
    page.get_by_role("button", name="Buy").click()
    expect(page.locator("#left")).to_have_text("30")
    paymock.speed(1)
    expect(page.locator("#left")).to_have_text(re.compile(r"2\d"))


def test_a_frame_is_as_high_as_its_checkout(page: Page, shop: str, paymock: Sandbox) -> None:
    page.goto(f"{shop}/framed.html")
    page.get_by_role("button", name="Buy").click()
    frame, checkout = page.locator("iframe"), page.frame_locator("iframe")
    expect(frame).to_have_attribute("height", re.compile("[0-9]"))
    for seconds, headline in ((1, "Waiting for your payment"), (44, "Paid")):
        paymock.advance(seconds)
        expect(checkout.get_by_role("heading", level=1)).to_have_text(headline)
        height = checkout.locator("html").evaluate("html => html.offsetHeight")
        expect(frame).to_have_attribute("height", str(height))
    expect(page.get_by_role("status")).to_have_text("Thank you")


def test_no_key_reaches_the_browser(page: Page, paymock: Sandbox) -> None:
    sent: list[str] = []
    page.on("request", lambda request: sent.append(str(request.headers)))
    with page.expect_response("**/buy") as bought:
        page.get_by_role("button", name="Buy").click()
    expect(page.get_by_role("status")).to_have_text("Waiting for your payment")
    assert len(sent) == 2  # to the shop, and to the checkout
    assert paymock.api_key not in bought.value.text() + "".join(sent)
