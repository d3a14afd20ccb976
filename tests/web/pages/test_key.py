"""The API key that the dashboard asks for: the sandboxes used before, and how to change between them."""

import pytest
from playwright.sync_api import BrowserContext, expect

from paymock.settings import OPEN_KEY_EXAMPLE, Settings
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, Tab, payment_page


def enter(tab: Tab, key: str) -> None:
    """Types a key into the form, and opens its sandbox."""
    tab.page.get_by_label("API key").fill(key)
    tab.page.keyboard.press("Enter")


def switch(tab: Tab) -> None:
    """Opens the form from the header."""
    tab.page.locator("#sandbox").click()
    expect(tab.page.get_by_role("heading", name="Open a sandbox")).to_be_visible()


class TestKey:
    def test_is_asked_for_once_and_names_the_sandbox_on_every_page_and_in_new_tabs(
        self, new_tab: NewTab, api: Sandbox
    ) -> None:
        payment = api.created(order_id="order-1")
        first = new_tab()
        first.page.goto(first.origin)
        expect(first.page.get_by_label("API key")).to_be_focused()
        enter(first, api.api_key)
        expect(first.orders()).to_have_text(["order-1"])
        for path in ("/", "/requests", f"/payments/{payment['id']}"):
            second = new_tab().open(path)
            expect(second.page.locator("#sandbox")).to_have_text(
                f"Sandbox {api.api_key.removeprefix('mk_test_')}"
            )
        assert first.page.evaluate("document.cookie") == ""

    def test_of_the_tab_that_a_link_is_in_is_the_one_of_the_new_tab(
        self, context: BrowserContext, new_tab: NewTab, server: RunningServer, contract: Contract
    ) -> None:
        with Sandbox(server.url, contract) as one, Sandbox(server.url, contract) as other:
            payment = one.created(order_id="of-one")
            first, second = new_tab(one.api_key).open(), new_tab(other.api_key).open()
            expect(second.page.get_by_role("heading", name="No payments yet")).to_be_visible()
            first.page.evaluate("dispatchEvent(new Event('focus'))")
            third = new_tab().open(f"/payments/{payment['id']}")
            expect(third.headline).to_have_text("of-one")

    @pytest.mark.parametrize("key", ["wrong", "ключ"])
    def test_that_is_wrong_is_said_to_be_at_its_field_and_can_be_mended(
        self, new_tab: NewTab, api: Sandbox, key: str
    ) -> None:
        api.created(order_id="order-1")
        tab = new_tab()
        tab.page.goto(tab.origin)
        field = tab.page.get_by_label("API key")
        expect(field).to_have_attribute("type", "text")  # of open mode: no secret
        enter(tab, key)
        expect(tab.page.locator("#key-problem")).to_have_text("The server does not accept this API key.")
        expect(field).to_have_value(key)
        expect(field).to_be_focused()
        expect(tab.live).to_be_empty()
        assert tab.page.evaluate("localStorage.length + sessionStorage.length") == 0
        enter(tab, api.api_key)
        expect(tab.orders()).to_have_text(["order-1"])
        tab.forgive("401")

    def test_that_is_wrong_is_tried_once_and_leaves_the_focus_alone(self, new_tab: NewTab) -> None:
        tab = new_tab("wrong")
        tab.stop_time()
        tab.page.goto(tab.origin)
        expect(tab.page.locator("#key-problem")).not_to_be_empty()
        tab.button("Open").focus()
        tab.pass_time(60)
        expect(tab.button("Open")).to_be_focused()
        assert [url for url in tab.requested if "/_mock/" in url] == [f"{tab.origin}/_mock/events"]
        tab.forgive("401")

    def test_of_open_mode_needs_no_typing(self, new_tab: NewTab) -> None:
        tab = new_tab()
        tab.page.goto(tab.origin)
        expect(tab.page.get_by_text("any key of the form mk_test_NAME")).to_be_visible()
        tab.button(f"Use {OPEN_KEY_EXAMPLE}").click()
        expect(tab.live).to_have_text("Live")

    def test_is_a_secret_where_only_certain_ones_are_accepted(self, new_tab: NewTab) -> None:
        key = "sk_shop_0123456789"
        with running_server(Settings(port=0, api_keys=(key,))) as server:
            tab = new_tab(origin=server.url)
            tab.page.goto(tab.origin)
            expect(tab.page.get_by_label("API key")).to_have_attribute("type", "password")
            expect(tab.button(f"Use {OPEN_KEY_EXAMPLE}")).to_have_count(0)
            enter(tab, key)
            expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
            expect(tab.page.locator("#sandbox")).to_have_text("Sandbox sk_s…6789")
            assert key not in tab.page.content()
            expect(tab.page.locator("#command")).to_contain_text("Bearer $PAYMOCK_API_KEY")
            tab.leave()


class TestSwitch:
    def test_leads_to_sandboxes_used_before(self, new_tab: NewTab, api: Sandbox) -> None:
        payment = api.created(order_id="order-1")
        tab = new_tab()
        tab.page.goto(tab.origin)
        enter(tab, "mk_test_another")
        expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
        switch(tab)
        enter(tab, api.api_key)
        expect(tab.orders()).to_have_text(["order-1"])
        tab.orders().click()
        expect(tab.headline).to_have_text("order-1")
        switch(tab)
        used = tab.page.get_by_role("list", name="Used before").get_by_role("listitem")
        expect(used).to_contain_text([api.api_key.removeprefix("mk_test_"), "another"])
        tab.button("another").click()
        expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
        assert payment["id"] not in tab.page.url  # it is not in the other sandbox

    def test_can_be_cancelled(self, tab: Tab, api: Sandbox) -> None:
        payment_page(tab, api.created(order_id="order-1"))
        switch(tab)
        expect(tab.page.get_by_label("API key")).to_be_focused()
        expect(tab.page.get_by_role("heading", name="order-1")).to_be_hidden()
        tab.button("Cancel").click()
        expect(tab.headline.first).to_have_text("order-1")
        expect(tab.page.locator("#sandbox")).to_be_focused()

    def test_forgets_a_sandbox(self, new_tab: NewTab, api: Sandbox) -> None:
        tab = new_tab()
        tab.page.goto(tab.origin)
        enter(tab, api.api_key)
        expect(tab.live).to_have_text("Live")
        switch(tab)
        tab.button(f"Forget {api.api_key.removeprefix('mk_test_')}").click()
        expect(tab.page.get_by_label("API key")).to_be_focused()
        expect(tab.page.get_by_role("list", name="Used before")).to_have_count(0)
        assert tab.page.evaluate("[sessionStorage.length, localStorage['paymock.keys']]") == [0, "[]"]
