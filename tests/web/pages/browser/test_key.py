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

    def test_stands_in_a_link_and_is_the_one_of_the_tab_that_a_link_is_in(
        self, new_tab: NewTab, server: RunningServer, contract: Contract
    ) -> None:
        with Sandbox(server.url, contract) as one, Sandbox(server.url, contract) as other:
            payment = one.created(order_id="of-one")
            first, second = new_tab(), new_tab(other.api_key).open()
            expect(second.page.get_by_role("heading", name="No payments yet")).to_be_visible()
            first.page.goto(client.Sandbox(server.url, one.api_key).dashboard_url)
            expect(first.orders()).to_have_text(["of-one"])
            expect(first.page).to_have_url(f"{server.url}/")
            first.page.goto(f"{server.url}/#key={one.api_key.removeprefix('mk_test_')}")
            expect(first.page.locator("#key-problem")).to_contain_text(f"valid test key: open {one.api_key}?")
            expect(first.page.get_by_label("API key")).to_have_value(one.api_key)
            with first.page.expect_navigation():
                first.button("Open").click()
            expect(first.orders()).to_have_text(["of-one"])
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
        assert [url for url in tab.requested if "/_mock/" in url] == [f"{tab.origin}/_mock/clock"]
        tab.forgive("401")

    def test_of_the_settings_is_a_secret_and_opens_its_other_sandboxes(self, new_tab: NewTab) -> None:
        key, name = "sk_shop_0123456789", "branch-7"
        with (
            running_server(Settings(port=0, api_keys=(key,))) as server,
            client.Sandbox(server.url, key) as own,
            client.Sandbox(server.url, key, name=name) as named,
        ):
            named.create(order_id="of-branch-7")
            tab = new_tab(origin=server.url)
            page, field, sandbox = tab.page, tab.page.get_by_label("API key"), tab.page.locator("#sandbox")
            page.goto(named.dashboard_url)
            expect(field).to_have_attribute("type", "password")
            expect(field).to_have_value("")
            expect(page.get_by_text(f"The link opens the sandbox {name} of your key.")).to_be_visible()
            enter(tab, key)
            expect(tab.orders()).to_have_text(["of-branch-7"])
            expect(sandbox).to_have_text(f"Sandbox {name}")
            expect(page.locator("#command")).to_contain_text(f"Bearer $PAYMOCK_API_KEY.{name}")
            assert (page.url, key in page.content()) == (f"{tab.origin}/", False)

            switch(tab)
            enter(tab, key)
            expect(page.get_by_role("heading", name="No payments yet")).to_be_visible()
            expect(sandbox).to_have_text("Sandbox sk_s…6789")
            expect(page.locator("#command")).to_contain_text('Bearer $PAYMOCK_API_KEY"')
            assert key not in page.content()
            own.create(order_id="of-the-key")
            expect(tab.orders()).to_have_text(["of-the-key"])
            switch(tab)
            page.evaluate(f"location.hash = 'sandbox={name}'")
            expect(tab.orders()).to_have_text(["of-branch-7"])
            switch(tab)
            page.get_by_role("button", name="sk_s…6789", exact=True).press("Enter")
            expect(tab.orders()).to_have_text(["of-the-key"])
            page.evaluate("location.hash = 'key=sk_shop_0'")
            expect(page.locator("#key-problem")).to_have_text(
                "Links cannot contain a key of this server: enter yours."
            )
            page.evaluate("location.hash = 'sandbox=another'")
            expect(page.get_by_role("heading", name="No payments yet")).to_be_visible()

            switch(tab)
            enter(tab, named.api_key)  # the name of a key that is typed with it is no secret
            expect(sandbox).to_have_text(f"Sandbox {name}")
            second = new_tab(origin=server.url).open("/requests")
            expect(second.page.locator("#sandbox")).to_have_text(f"Sandbox {name}")
            second.leave()
            tab.leave()


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
