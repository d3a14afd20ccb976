"""The page at /swagger/ as a person meets it: in a real browser, whose requests and complaints are kept."""

import hashlib
import json
from importlib.resources import files
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.support.browser import violations
from tests.support.server import RunningServer
from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.steps import Tab

FOLDER = files("paymock.web.pages").joinpath("static", "swagger")


def operation(tab: Tab, operation_id: str) -> Locator:
    block = tab.page.locator(f"[id$='-{operation_id}']")
    block.locator(".opblock-summary-control").click()
    expect(block.get_by_role("button", name="Execute")).to_be_visible()
    return block


def executed(tab: Tab, block: Locator) -> Any:
    """The JSON that the page shows as the reply of the server, which has created something."""
    with tab.page.expect_response("**/v1/payments**"):
        block.get_by_role("button", name="Execute").click()
    reply = block.locator(".live-responses-table .response")
    expect(reply.locator(".response-col_status")).to_have_text("201")
    return json.loads(reply.locator("code.language-json").inner_text())


def test_vendored_files_match_their_checksums(shared_server: RunningServer) -> None:
    lines = FOLDER.joinpath("SHA256SUMS").read_text("ascii").splitlines()
    assert len(lines) == 3
    for checksum, name in map(str.split, lines):
        served = httpx.get(f"{shared_server.url}/swagger/{name}").content
        assert hashlib.sha256(served).hexdigest() == checksum


def test_document_is_of_this_server_and_is_used_with_the_key_that_is_entered(new_tab: NewTab) -> None:
    tab = new_tab()
    banner = tab.page.get_by_role("banner")
    elsewhere = "?url=https://evil.example/x.yaml&configUrl=https://evil.example/c.json"
    tab.page.goto(f"{tab.origin}/swagger/{elsewhere}")
    expect(tab.headline).to_contain_text("paymock")
    expect(banner).to_contain_text("This is a mock. Do not send real funds to any")
    assert f"{tab.origin}/openapi.yaml" in tab.requested
    expect(tab.page.locator(".models").get_by_role("button", expanded=False)).to_have_count(1)
    tab.button("Authorize").click()
    assert violations(tab.page, "heading-order") == []
    tab.button("Close").click()
    expect(banner).to_contain_text("Sandbox mk_test_demo")
    tab.page.get_by_role("link", name="Dashboard").click()
    expect(tab.page.locator("#sandbox")).to_have_text("Sandbox mk_test_demo")
    tab.page.goto(f"{tab.origin}/swagger/")
    create = operation(tab, "createPayment")
    payment = executed(tab, create)
    assert payment["status"] == "awaiting_payment"
    scenario = create.locator("[data-param-name=X-Mock-Scenario] select")
    expect(scenario).to_have_value("")  # an override applies
    assert executed(tab, create)["id"] != payment["id"]  # each request has an idempotency key of its own
    create.get_by_label("Idempotency-Key").fill("a-key-of-my-own")  # unless one is entered
    payment = executed(tab, create)
    assert executed(tab, create) == payment


@pytest.mark.nightly
@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("path", "operation_id"), [("/swagger/", "createPayment"), ("/swagger/control/", "advancePayment")]
)
def test_page_can_be_used_by_everybody(
    new_tab: NewTab, path: str, operation_id: str, scheme: Literal["light", "dark"]
) -> None:
    tab = new_tab()
    tab.page.emulate_media(color_scheme=scheme)
    tab.page.goto(tab.origin + path)
    tab.button("Authorize").click()
    expect(tab.page.locator(".modal-ux")).to_be_visible()
    assert violations(tab.page) == []
    tab.button("Close").click()
    block = operation(tab, operation_id)
    if operation_id == "createPayment":
        executed(tab, block)
    assert violations(tab.page) == []
    tab.resize(360)
    assert tab.fits()
