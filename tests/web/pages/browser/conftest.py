from collections.abc import Callable, Iterator
from typing import TYPE_CHECKING

import pytest

from tests.support.server import RunningServer
from tests.web.pages.sandbox import Sandbox

if TYPE_CHECKING:  # a quick run, which reads this file, too, is without playwright
    from playwright.sync_api import Browser, BrowserContext

    from tests.web.pages.browser.steps import Tab

NewTab = Callable[..., "Tab"]


@pytest.fixture(scope="session")
def profiles() -> list["BrowserContext"]:
    """The browser profile that the tests share, if there is one: to make one takes longer than most tests."""
    return []


@pytest.fixture
def context(browser: "Browser", profiles: list["BrowserContext"]) -> "BrowserContext":
    if not profiles:
        profiles.append(browser.new_context(permissions=["clipboard-read", "clipboard-write"]))
    return profiles[0]


@pytest.fixture
def new_tab(
    context: "BrowserContext", profiles: list["BrowserContext"], server: RunningServer
) -> Iterator[NewTab]:
    """Opens tabs of a profile that has kept nothing yet. They are left when the test ends."""
    from tests.web.pages.browser.steps import Tab

    tabs: list[Tab] = []

    def opened(api_key: str | None = None, origin: str | None = None) -> "Tab":
        tab = Tab(context.new_page(), origin or server.url, api_key)
        if not tabs:
            kept = {"origin": tab.origin, "storageTypes": "local_storage"}
            context.new_cdp_session(tab.page).send("Storage.clearDataForOrigin", kept)
        tabs.append(tab)
        return tab

    yield opened
    try:
        for tab in tabs:
            tab.leave()
    finally:
        if any(tab.stopped or not tab.page.is_closed() for tab in tabs):  # time stays stopped in a profile
            profiles.pop().close()


@pytest.fixture
def tab(new_tab: NewTab, api: Sandbox) -> "Tab":
    return new_tab(api.api_key)
