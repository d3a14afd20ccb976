"""The page at /swagger/ as a person meets it: in a real browser, whose requests and complaints are kept."""

import hashlib
import json
from importlib.resources import files
from typing import Any, Literal

import httpx
import pytest
from playwright.sync_api import Locator, expect

from tests.support.accessibility import violations
from tests.support.server import RunningServer
from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.steps import Tab

API_KEY = "mk_test_demo"
FOLDER = files("paymock.web.pages").joinpath("static", "swagger")


def opened(tab: Tab, path: str = "/swagger/") -> Locator:
    """The button Authorize, when the tab shows the document."""
    tab.page.goto(tab.origin + path)
    button = tab.button("Authorize")
    expect(button).to_be_visible()
    return button


def enter_key(tab: Tab) -> None:
    """Goes through the dialog."""
    tab.page.get_by_label("auth-bearer-value").fill(API_KEY)
    tab.page.keyboard.press("Enter")
    tab.button("Close").click()


def operation(tab: Tab, operation_id: str) -> Locator:
    """The operation, unfolded, with its form ready to fill."""
    block = tab.page.locator(f"[id$='-{operation_id}']")
    block.locator(".opblock-summary-control").click()
    expect(block.get_by_role("button", name="Execute")).to_be_visible()
    return block


def executed(tab: Tab, block: Locator, status: str) -> Any:
    """The JSON that the page shows as the reply of the server, which has that status."""
    with tab.page.expect_response("**/v1/payments**"):
        block.get_by_role("button", name="Execute").click()
    reply = block.locator(".live-responses-table .response")
    expect(reply.locator(".response-col_status")).to_have_text(status)
    return json.loads(reply.locator("code.language-json").inner_text())


def test_vendored_files_match_their_checksums(shared_server: RunningServer) -> None:
    lines = FOLDER.joinpath("SHA256SUMS").read_text("ascii").splitlines()
    assert len(lines) == 3
    for checksum, name in map(str.split, lines):
        served = httpx.get(f"{shared_server.url}/swagger/{name}").content
        assert hashlib.sha256(served).hexdigest() == checksum


def test_page_loads_its_document_from_this_server_alone(new_tab: NewTab) -> None:
    tab = new_tab()
    opened(tab, "/swagger/?url=https://evil.example/x.yaml&configUrl=https://evil.example/c.json")
    expect(tab.headline).to_contain_text("paymock")
    expect(tab.page.get_by_role("banner")).to_contain_text("This is a mock. Do not send real funds to any")
    assert f"{tab.origin}/openapi.yaml" in tab.requested
    assert tab.foreign() == []


def test_key_that_is_entered_is_kept_and_each_request_has_a_new_idempotency_key(new_tab: NewTab) -> None:
    tab = new_tab()
    banner = tab.page.get_by_role("banner")
    authorize = opened(tab)
    expect(banner).to_contain_text("No sandbox is open")
    authorize.click()
    enter_key(tab)
    expect(banner).to_contain_text("Sandbox demo")
    tab.page.get_by_role("link", name="Dashboard").click()
    expect(tab.page.locator("#sandbox")).to_have_text("Sandbox demo")
    opened(tab)
    create = operation(tab, "createPayment")
    payment = executed(tab, create, "201")
    assert payment["status"] == "awaiting_payment"
    assert executed(tab, create, "201")["id"] != payment["id"]


@pytest.mark.nightly
def test_idempotency_key_that_is_entered_stays(new_tab: NewTab) -> None:
    tab = new_tab(API_KEY)
    opened(tab)
    create = operation(tab, "createPayment")
    field = create.get_by_label("Idempotency-Key")
    field.fill("a-key-of-my-own")
    payment = executed(tab, create, "201")
    expect(field).to_have_value("a-key-of-my-own")
    assert executed(tab, create, "201") == payment
    get = operation(tab, "getPayment")
    get.get_by_placeholder("payment_id").fill(payment["id"])
    assert executed(tab, get, "200") == payment


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
    opened(tab, path).click()
    expect(tab.page.locator(".modal-ux")).to_be_visible()
    assert violations(tab.page) == []
    enter_key(tab)
    block = operation(tab, operation_id)
    if operation_id == "createPayment":
        executed(tab, block, "201")
    assert violations(tab.page) == []
    tab.resize(360)
    assert tab.fits()
