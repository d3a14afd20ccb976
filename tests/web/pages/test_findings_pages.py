"""What the judge has found, at `/findings`."""

from playwright.sync_api import expect

from tests.support.findings import finding
from tests.web.pages.steps import Sandbox, Tab


def test_a_finding_is_opened_from_the_list_and_tells_its_story(tab: Tab, api: Sandbox) -> None:
    payment = api.created(order_id="order-1")
    api.move(payment, to="end")
    assert api.post("/_mock/findings", json=finding(payment_id=payment["id"])).status_code == 201
    tab.open("/findings")
    row = tab.rows().first
    expect(row).to_contain_text("The payment was completed, and the goods did not go out.")
    row.get_by_role("link", name="lost sale").click()
    expect(tab.headline).to_have_text("lost sale")
    expect(tab.page.get_by_text("getPayment gets drop.")).to_be_visible()
    expect(tab.page.get_by_role("img", name="completed at")).to_be_visible()
    expect(tab.page.locator("#course")).to_contain_text("createPayment 201 new, getPayment ✗ drop")
    tab.page.get_by_role("link", name="Open its payment").click()
    expect(tab.headline).to_have_text("order-1")


def test_a_finding_without_a_payment_says_so_and_texts_of_others_are_escaped(tab: Tab, api: Sandbox) -> None:
    hostile = "<img src=x onerror=alert(1)>"
    texts = {"explanation": hostile, "story": [f"Goods: {hostile}"], "course": [hostile], "command": hostile}
    made = api.post("/_mock/findings", json=finding(**texts)).json()
    tab.open(f"/findings/{made['id']}")
    expect(tab.page.get_by_text("Its payment no longer exists, or was never created.")).to_be_visible()
    expect(tab.page.locator("#course")).to_contain_text(hostile)
    assert tab.page.locator("#content img").count() == 0


def test_without_findings_the_page_says_how_to_get_some(tab: Tab, api: Sandbox) -> None:
    tab.open("/findings")
    expect(tab.page.get_by_text("paymock verify")).to_be_visible()
