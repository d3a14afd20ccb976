from playwright.sync_api import expect

from tests.web.pages.browser.steps import Tab
from tests.web.pages.sandbox import Sandbox


def test_requests_appear_as_they_come_and_are_filtered_and_cleared(tab: Tab, api: Sandbox) -> None:
    tab.open("/requests").keep()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    payment = api.created(order_id="order-1")
    api.get("/v1/chains", headers={"X-Mock-Fault": "status=503"})
    expect(tab.rows()).to_contain_text(["/v1/chains", "201 (new)"])
    tab.button("Copy as curl").first.click()
    tab.announced("Copied")
    assert tab.copied().startswith(f"curl -sS -X GET '{tab.origin}/v1/chains'")
    tab.page.get_by_label("Only errors and faults").check()
    expect(tab.rows()).to_have_count(1)
    expect(tab.rows()).to_contain_text("503 injected_fault")
    api.payment(payment["id"])
    api.get("/v1/payments/nope")
    expect(tab.rows()).to_contain_text(["404 payment_not_found", "503 injected_fault"])
    expect(tab.rows()).to_have_count(2)
    tab.page.get_by_label("Only errors and faults").uncheck()
    expect(tab.rows()).to_have_count(4)
    tab.button("Clear the journal").click()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    assert api.get("/_mock/requests").json()["data"] == []
    assert len(api.payments()) == 1
    assert tab.kept()
