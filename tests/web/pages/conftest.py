"""Fixtures of the tests of the pages: a browser, a tab in it, a sandbox whose time stands still."""

from collections.abc import Callable, Iterator

import pytest
from playwright.sync_api import Browser, BrowserContext

from tests.support.contract import Contract
from tests.support.server import RunningServer
from tests.web.pages.steps import Sandbox, Tab

NewTab = Callable[..., Tab]


@pytest.fixture
def api(server: RunningServer, contract: Contract) -> Iterator[Sandbox]:
    with Sandbox(server.url, contract) as client:
        client.speed(0)
        yield client


@pytest.fixture
def context(browser: Browser) -> Iterator[BrowserContext]:
    """A browser profile of its own."""
    with browser.new_context(permissions=["clipboard-read", "clipboard-write"]) as context:
        yield context


@pytest.fixture
def new_tab(context: BrowserContext, server: RunningServer) -> Iterator[NewTab]:
    """Opens tabs, which are left when the test ends."""
    tabs: list[Tab] = []

    def opened(api_key: str | None = None, origin: str | None = None) -> Tab:
        tabs.append(Tab(context.new_page(), origin or server.url, api_key))
        return tabs[-1]

    yield opened
    for tab in tabs:
        tab.leave()


@pytest.fixture
def tab(new_tab: NewTab, api: Sandbox) -> Tab:
    """A tab that has the key of the sandbox."""
    return new_tab(api.api_key)
