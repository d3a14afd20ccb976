import re

from playwright.sync_api import expect

from paymock import testing as client
from paymock.settings import OPEN_KEY_EXAMPLE, Settings
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server
from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.steps import Tab
from tests.web.pages.sandbox import Sandbox


def enter(tab: Tab, key: str) -> None:
    tab.page.get_by_label("API key").fill(key)
    tab.page.keyboard.press("Enter")


def switch(tab: Tab) -> None:
    tab.page.locator("#sandbox").click()
    expect(tab.page.get_by_role("heading", name="Open a sandbox")).to_be_visible()


class TestKey:
    def test_that_is_wrong_can_be_corrected(self, new_tab: NewTab, api: Sandbox) -> None:
        payment = api.created(order_id="order-1")
        tab = new_tab()
        tab.page.goto(f"{tab.origin}/payments/{payment['id']}")  # it may be in the sandbox of any key
        field = tab.page.get_by_label("API key")
        expect(field).to_be_focused()
        expect(field).to_have_attribute("type", "text")  # of open mode: no secret
        for key in ("wrong", "ключ"):
            enter(tab, key)
            expect(tab.page.locator("#key-problem")).to_have_text("The server does not accept this API key.")
            expect(field).to_have_value(key)
            expect(field).to_be_focused()
        expect(tab.live).to_be_empty()
        assert tab.page.evaluate("localStorage.length + sessionStorage.length") == 0
        enter(tab, api.api_key)
        expect(tab.headline).to_have_text("order-1")
        second = new_tab().open()
        expect(second.page.locator("#sandbox")).to_have_text(f"Sandbox {api.api_key}")
        assert tab.page.evaluate("document.cookie") == ""
        tab.forgive("401")

    def test_of_the_tab_that_a_link_is_in_is_the_one_of_the_new_tab(
        self, new_tab: NewTab, server: RunningServer, contract: Contract
    ) -> None:
        with Sandbox(server.url, contract) as one, Sandbox(server.url, contract) as other:
            payment = one.created(order_id="of-one")
            first, second = new_tab(one.api_key).open(), new_tab(other.api_key).open()
            expect(first.orders()).to_have_text(["of-one"])
            expect(second.page.get_by_role("heading", name="No payments yet")).to_be_visible()
            first.page.evaluate("dispatchEvent(new Event('focus'))")
            third = new_tab().open(f"/payments/{payment['id']}")
            expect(third.headline).to_have_text("of-one")

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

    def test_is_a_secret_where_only_certain_ones_are_accepted(self, new_tab: NewTab) -> None:
        key = "sk_shop_0123456789"
        with running_server(Settings(port=0, api_keys=(key,))) as server:
            tab = new_tab(origin=server.url)
            tab.page.goto(tab.origin)
            expect(tab.page.get_by_label("API key")).to_have_attribute("type", "password")
            expect(tab.page.get_by_label("API key")).to_have_value("")
            enter(tab, key)
            expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()
            expect(tab.page.locator("#sandbox")).to_have_text("Sandbox sk_s…6789")
            assert key not in tab.page.content()
            expect(tab.page.locator("#command")).to_contain_text("Bearer $PAYMOCK_API_KEY")
            tab.leave()

    def test_opens_its_other_sandboxes_by_links_and_from_a_list(self, new_tab: NewTab) -> None:
        key, name = "sk_shop_0123456789", "branch-7"
        with (
            running_server(Settings(port=0, api_keys=(key,))) as server,
            client.Sandbox(server.url, key) as own,
            client.Sandbox(server.url, key, name=name) as named,
        ):
            own.create(order_id="of-the-key")
            named.create(order_id="of-branch-7")
            tab = new_tab(origin=server.url)
            tab.page.goto(named.dashboard_url)
            expect(tab.page.get_by_text(f"The link opens the sandbox {name} of your key.")).to_be_visible()
            enter(tab, key)
            expect(tab.orders()).to_have_text(["of-branch-7"])
            expect(tab.page.locator("#sandbox")).to_have_text(f"Sandbox {name}")
            expect(tab.page.locator("#command")).to_contain_text(f"Bearer $PAYMOCK_API_KEY.{name}")
            assert (tab.page.url, key in tab.page.content()) == (f"{tab.origin}/", False)

            switch(tab)
            tab.page.get_by_role("button", name=re.compile("^sk_s…6789 1 payment, last used 2030-")).press(
                "Enter"
            )
            expect(tab.orders()).to_have_text(["of-the-key"])
            switch(tab)
            tab.page.get_by_role("button", name=re.compile(f"^{name} 1 payment")).click()
            expect(tab.orders()).to_have_text(["of-branch-7"])
            tab.page.evaluate("location.hash = 'sandbox=another'")
            expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()

            switch(tab)
            enter(tab, named.api_key)  # the name of a key that is typed with it is no secret
            expect(tab.page.locator("#sandbox")).to_have_text(f"Sandbox {name}")
            second = new_tab(origin=server.url).open("/requests")
            expect(second.page.locator("#sandbox")).to_have_text(f"Sandbox {name}")
            second.leave()
            tab.leave()

    def test_of_open_mode_can_stand_in_a_link(self, new_tab: NewTab, api: Sandbox) -> None:
        api.created(order_id="order-1")
        tab = new_tab()
        for link in (client.Sandbox(tab.origin, api.api_key).dashboard_url, f"{tab.origin}/#key=wrong"):
            tab.page.goto(link)
            expect(tab.orders()).to_have_text(["order-1"])
            expect(tab.page).to_have_url(f"{tab.origin}/")


def test_form_leads_to_sandboxes_used_before_and_forgets_them(new_tab: NewTab, api: Sandbox) -> None:
    api.created(order_id="order-1")
    tab = new_tab().open("/requests")  # without a key, that of the example opens
    expect(tab.page.locator("#sandbox")).to_have_text(f"Sandbox {OPEN_KEY_EXAMPLE}")
    second = new_tab()
    second.page.goto(f"{tab.origin}/payments/nope")
    switch(second)
    expect(second.page.locator("#main")).to_be_hidden()
    second.button("Cancel").click()
    expect(second.page.locator("#main")).to_be_visible()
    expect(second.page.locator("#sandbox")).to_be_focused()
    switch(second)
    enter(second, api.api_key)
    expect(second.orders()).to_have_text(["order-1"])  # a payment is of one sandbox
    switch(second)
    used = second.page.get_by_role("list", name="Used before").get_by_role("listitem")
    expect(used).to_contain_text([api.api_key, OPEN_KEY_EXAMPLE])
    second.button(f"Forget {OPEN_KEY_EXAMPLE}").click()
    expect(used).to_contain_text([api.api_key])
    second.button(f"Forget {api.api_key}").click()
    expect(second.page.locator("#sandbox")).to_have_text(f"Sandbox {OPEN_KEY_EXAMPLE}")
    second.forgive("404")
