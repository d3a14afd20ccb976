"""The pages in a browser that runs no JavaScript."""

from collections.abc import Iterator

import pytest
from playwright.sync_api import Browser, expect

from tests.support.server import RunningServer
from tests.web.pages.steps import Sandbox, Tab


@pytest.fixture
def plain(browser: Browser, server: RunningServer) -> Iterator[Tab]:
    with browser.new_context(java_script_enabled=False) as context:
        yield Tab(context.new_page(), server.url)


def test_checkout_asks_again_by_itself(plain: Tab, api: Sandbox) -> None:
    payment = api.created("happy_path")
    api.speed(60)  # the server's own clock stands still: the page asks every second, and nothing changes
    plain.open(f"/checkout/{payment['id']}")
    expect(plain.headline).to_have_text("Waiting for your payment")
    api.advance(7)
    expect(plain.headline).to_have_text("Payment detected")
    expect(plain.page.get_by_text("4/16")).to_be_visible()


@pytest.mark.parametrize(
    ("speed", "seconds", "refresh"),
    [(0, 0, "10"), (1, 2, "4"), (1, 13, "10"), (60, 0, "1"), (1, 45, None)],
)
def test_checkout_asks_again_when_something_is_due(
    plain: Tab, api: Sandbox, speed: float, seconds: float, refresh: str | None
) -> None:
    payment = api.created("happy_path")
    if seconds:
        api.move(payment, seconds=seconds)
    api.speed(speed)
    plain.open(f"/checkout/{payment['id']}")
    found = plain.page.locator("meta[http-equiv=refresh]")
    assert [meta.get_attribute("content") for meta in found.all()] == ([refresh] if refresh else [])


def test_nothing_is_shown_that_does_not_work(plain: Tab, api: Sandbox) -> None:
    plain.open(f"/checkout/{api.created()['id']}")
    expect(plain.headline).to_be_visible()
    expect(plain.page.get_by_role("button")).to_have_count(0)


def test_dashboard_says_that_it_needs_it(plain: Tab) -> None:
    plain.page.goto(plain.origin)
    expect(plain.page.locator("noscript p")).to_contain_text("The dashboard needs JavaScript.")
