"""The pages in a browser that runs no JavaScript."""

from playwright.sync_api import Browser, expect

from tests.support.server import RunningServer
from tests.web.pages.browser.steps import Tab
from tests.web.pages.sandbox import Sandbox


def test_checkout_asks_again_by_itself_and_the_dashboard_says_what_it_needs(
    browser: Browser, server: RunningServer, api: Sandbox
) -> None:
    payment = api.created("happy_path")
    api.speed(60)  # the server's own clock stands still: the page asks every second, and nothing changes
    with browser.new_context(java_script_enabled=False) as context:
        tab = Tab(context.new_page(), server.url).open(f"/checkout/{payment['id']}")
        expect(tab.headline).to_have_text("Waiting for your payment")
        expect(tab.page.get_by_role("button")).to_have_count(0)  # nothing is shown that does not work
        api.advance(7)
        expect(tab.headline).to_have_text("Payment detected")
        expect(tab.page.get_by_text("4/16")).to_be_visible()
        tab.page.goto(server.url)
        expect(tab.page.locator("noscript p")).to_contain_text("The dashboard needs JavaScript.")
