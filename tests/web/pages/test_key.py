"""The API key that the dashboard asks for, and keeps in one tab alone."""

import pytest
from playwright.sync_api import expect

from paymock.settings import OPEN_KEY_EXAMPLE, Settings
from tests.support.server import running_server
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox


class TestKey:
    def test_is_asked_for_and_kept_in_this_tab_alone(self, new_tab: NewTab, api: Sandbox) -> None:
        api.created(order_id="order-1")
        first, second = new_tab(), new_tab()
        for tab in (first, second):
            tab.page.goto(tab.origin)
            expect(tab.page.get_by_label("API key")).to_be_focused()
        first.page.get_by_label("API key").fill(api.api_key)
        first.button("Open").click()
        expect(first.orders()).to_have_text(["order-1"])
        second.page.reload()
        expect(second.page.get_by_label("API key")).to_be_focused()
        assert first.page.evaluate("[document.cookie, localStorage.length]") == ["", 0]

    @pytest.mark.parametrize("key", ["wrong", "ключ"])
    def test_that_is_wrong_is_said_to_be_and_asked_for_again(
        self, new_tab: NewTab, api: Sandbox, key: str
    ) -> None:
        api.created(order_id="order-1")
        tab = new_tab()
        tab.page.goto(tab.origin)
        tab.page.get_by_label("API key").fill(key)
        tab.page.keyboard.press("Enter")
        expect(tab.problem).to_have_text("The server does not accept this API key.")
        expect(tab.page.get_by_label("API key")).to_be_focused()
        expect(tab.live).to_be_empty()
        tab.page.get_by_label("API key").fill(api.api_key)
        tab.page.keyboard.press("Enter")
        expect(tab.orders()).to_have_text(["order-1"])
        expect(tab.problem).to_be_hidden()
        tab.forgive("401")

    def test_that_is_wrong_is_tried_once_and_leaves_the_focus_alone(self, new_tab: NewTab) -> None:
        tab = new_tab("wrong")
        tab.stop_time()
        tab.page.goto(tab.origin)
        expect(tab.problem).to_be_visible()
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
        assert tab.page.evaluate("sessionStorage.getItem('paymock.key')") == OPEN_KEY_EXAMPLE

    def test_is_not_suggested_where_only_certain_ones_are_accepted(self, new_tab: NewTab) -> None:
        with running_server(Settings(port=0, api_keys=("sk_shop",))) as server:
            tab = new_tab(origin=server.url)
            tab.page.goto(tab.origin)
            expect(tab.button("Open")).to_be_visible()
            expect(tab.button(f"Use {OPEN_KEY_EXAMPLE}")).to_have_count(0)
            tab.page.get_by_label("API key").fill("sk_shop")
            tab.page.keyboard.press("Enter")
            expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
            tab.leave()

    def test_can_be_changed(self, new_tab: NewTab) -> None:
        tab = new_tab()
        tab.page.goto(tab.origin)
        tab.button(f"Use {OPEN_KEY_EXAMPLE}").click()
        tab.button("Change key").click()
        expect(tab.page.get_by_label("API key")).to_be_focused()
        assert tab.page.evaluate("sessionStorage.length") == 0
        expect(tab.page.get_by_role("heading", name="Payments")).to_be_hidden()
