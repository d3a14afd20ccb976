"""The page at /swagger/ as a person meets it: in a real browser, whose requests and complaints are kept."""

import hashlib
import json
import re
from collections.abc import Iterator
from importlib.resources import files
from typing import Any, Literal
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Locator, expect

from paymock.settings import Settings
from tests.support import browser as browsers
from tests.support.accessibility import violations
from tests.support.server import RunningServer, running_server

API_KEY = "mk_test_demo"
FOLDER = files("paymock.web.pages").joinpath("static", "swagger")
OWN = {"index.html", "paymock.js", "paymock.css"}
VENDORED = {"swagger-ui.css", "swagger-ui-bundle.js", "favicon-32x32.png"}
ICON = "/swagger/favicon-32x32.png"  # a browser without a window can do without it


class Visit(browsers.Visit):
    """The page in a browser profile of its own."""

    @property
    def authorize(self) -> Locator:
        return self.page.get_by_role("button", name="Authorize", exact=True)

    @property
    def dialog(self) -> Locator:
        return self.page.locator(".modal-ux")

    def open(self, path: str = "/swagger/") -> "Visit":
        """Goes there, and waits until the document is shown."""
        self.page.goto(self.origin + path)
        expect(self.authorize).to_be_visible(timeout=10_000)
        return self

    def enter_key(self) -> None:
        """Goes through the Authorize dialog."""
        self.authorize.click()
        self.dialog.get_by_label("auth-bearer-value").fill(API_KEY)
        self.dialog.get_by_role("button", name="Apply credentials").click()
        self.dialog.get_by_role("button", name="Close", exact=True).click()
        expect(self.dialog).to_have_count(0)

    def operation(self, operation_id: str) -> Locator:
        """The operation, unfolded, with its form ready to fill."""
        block = self.page.locator(f"[id$='-{operation_id}']")
        block.locator(".opblock-summary-control").click()
        expect(block.get_by_role("button", name="Execute")).to_be_visible()
        return block

    def create_payment(self) -> Locator:
        """The create operation, executed with the key and the body that the page proposes."""
        block = self.operation("createPayment")
        block.get_by_role("button", name="Execute").click()
        return block


def reply_shown(operation: Locator, status: str) -> Any:
    """The JSON that the page shows as the reply of the server, which has that status."""
    reply = operation.locator(".live-responses-table .response")
    expect(reply.locator(".response-col_status")).to_have_text(status)
    return json.loads(reply.locator("code.language-json").inner_text())


def contrast(text: Locator) -> float:
    """The contrast ratio (WCAG) between the color of a text and what is painted behind it."""
    colors = text.evaluate(
        """node => {
            const colors = [getComputedStyle(node).color];
            for (let at = node; at; at = at.parentElement) colors.push(getComputedStyle(at).backgroundColor);
            return colors;
        }"""
    )
    shade = [255.0, 255.0, 255.0]
    lights = []
    for color in reversed(colors):
        *channels, alpha = [*map(float, re.findall(r"[\d.]+", color)), 1.0][:4]
        shade = [alpha * above + (1 - alpha) * below for above, below in zip(channels, shade, strict=True)]
        linear = [c / 3294.6 if c <= 10 else ((c / 255 + 0.055) / 1.055) ** 2.4 for c in shade]
        lights.append(0.2126 * linear[0] + 0.7152 * linear[1] + 0.0722 * linear[2])
    darker, lighter = sorted(lights[-2:])
    return (lighter + 0.05) / (darker + 0.05)


@pytest.fixture
def visit(browser: Browser, shared_server: RunningServer) -> Iterator[Visit]:
    with browser.new_context() as context:
        yield Visit(context.new_page(), shared_server.url)


def test_loads_from_this_server_alone_and_without_a_complaint(visit: Visit) -> None:
    visit.open().page.wait_for_load_state("networkidle")
    paths = {
        "/swagger/",
        "/openapi.yaml",
        "/assets/api.js",
        *(f"/swagger/{name}" for name in (OWN | VENDORED) - {"index.html"}),
    }
    assert {*visit.requested, visit.origin + ICON} == {visit.origin + path for path in paths}
    assert visit.complaints() == []


@pytest.mark.parametrize("name", sorted((OWN | VENDORED) - {"index.html"}))
def test_serves_the_files_of_the_package_as_they_are(shared_server: RunningServer, name: str) -> None:
    reply = httpx.get(f"{shared_server.url}/swagger/{name}".removesuffix("index.html"))
    assert reply.content == FOLDER.joinpath(name).read_bytes()


def test_vendored_files_match_their_checksums() -> None:
    lines = FOLDER.joinpath("SHA256SUMS").read_text("ascii").splitlines()
    actual = {
        f"{hashlib.sha256(FOLDER.joinpath(name).read_bytes()).hexdigest()}  {name}" for name in VENDORED
    }
    assert set(lines) == actual


def test_path_without_its_slash_leads_to_the_page(visit: Visit) -> None:
    visit.open("/swagger")
    assert visit.page.url == f"{visit.origin}/swagger/"


def test_document_named_in_the_query_is_ignored(visit: Visit) -> None:
    visit.open("/swagger/?url=https://evil.example/x.yaml&configUrl=https://evil.example/c.json")
    expect(visit.page.get_by_role("heading", level=1)).to_contain_text("paymock")
    assert f"{visit.origin}/openapi.yaml" in visit.requested
    assert [url for url in visit.requested if urlsplit(url).hostname == "evil.example"] == []
    assert visit.complaints() == []


def test_policy_admits_files_of_this_server_and_nothing_else(shared_server: RunningServer) -> None:
    policy = httpx.get(f"{shared_server.url}/swagger/").headers["content-security-policy"]
    assert {name: sources for name, *sources in map(str.split, policy.split(";"))} == {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'", "data:"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }


def test_policy_stops_what_an_injection_would_try(visit: Visit) -> None:
    visit.open()
    for attempt in browsers.INJECTIONS.values():
        visit.page.evaluate(attempt)
    violations = {text for text in visit.complaints() if text.startswith("violates ")}
    assert violations == {f"violates {directive}" for directive in browsers.INJECTIONS}


def test_schemas_unfold_without_a_complaint(visit: Visit) -> None:
    create = visit.open().operation("createPayment")
    create.get_by_role("tab", name="Schema").first.click()
    expect(create.get_by_role("tabpanel", name="Schema")).to_contain_text("order_id")
    schemas = visit.page.locator(".models")
    schemas.get_by_role("button", name="Expand all").last.click()
    expect(schemas).to_contain_text("enabled")
    assert visit.complaints() == []


def test_authorized_reader_creates_a_payment_and_reads_it_back(visit: Visit) -> None:
    visit.open().enter_key()
    payment = reply_shown(visit.create_payment(), "201")
    assert payment["status"] == "awaiting_payment"
    get = visit.operation("getPayment")
    get.get_by_placeholder("payment_id").fill(payment["id"])
    get.get_by_role("button", name="Execute").click()
    assert reply_shown(get, "200") == payment
    assert visit.complaints() == []


def test_unauthorized_reader_is_shown_the_401(visit: Visit) -> None:
    refusal = reply_shown(visit.open().create_payment(), "401")
    assert refusal["error"]["code"] == "unauthenticated"
    (complaint,) = visit.complaints()
    assert "401" in complaint


def test_key_can_be_entered_by_keyboard_alone(visit: Visit) -> None:
    visit.open().tab_to(visit.authorize)
    visit.page.keyboard.press("Enter")
    visit.tab_to(visit.dialog.get_by_label("auth-bearer-value"))
    visit.page.keyboard.type(API_KEY)
    visit.page.keyboard.press("Enter")
    expect(visit.dialog.get_by_role("heading", name="Authorized", exact=True)).to_be_visible()
    visit.tab_to(visit.dialog.get_by_role("button", name="Close", exact=True))
    visit.page.keyboard.press("Space")
    expect(visit.dialog).to_have_count(0)
    reply_shown(visit.create_payment(), "201")


def test_page_has_its_landmarks_and_one_top_heading(visit: Visit) -> None:
    page = visit.open().page
    expect(page.get_by_role("banner")).to_contain_text(
        "This is a mock. Do not send real funds to any address shown here."
    )
    expect(page.get_by_role("heading", level=1)).to_have_count(1)
    about = page.get_by_role("region", name="About the document")
    expect(about.get_by_role("heading", level=1)).to_contain_text("paymock")


def test_reader_without_javascript_is_led_to_the_document(
    browser: Browser, shared_server: RunningServer
) -> None:
    with browser.new_context(java_script_enabled=False) as context:
        page = context.new_page()
        page.goto(f"{shared_server.url}/swagger/")
        expect(page.locator("#swagger-ui").get_by_role("link")).to_have_attribute("href", "/openapi.yaml")


def test_page_follows_the_color_scheme_of_the_system_and_stays_readable(visit: Visit) -> None:
    visit.page.emulate_media(color_scheme="dark")
    page = visit.open().page
    create = visit.operation("createPayment")
    texts = {
        "band": page.get_by_role("banner"),
        "introduction": page.locator(".info p").first,
        "label of the examples": create.get_by_text("Examples:", exact=True),
        "response header": create.locator("table.headers td").first,
    }
    expect(page.locator("html")).to_have_class("dark-mode")
    assert [name for name, text in texts.items() if contrast(text) < 4.5] == []
    page.emulate_media(color_scheme="light")
    expect(page.locator("html")).not_to_have_class("dark-mode")
    assert [name for name, text in texts.items() if contrast(text) < 4.5] == []


def test_narrow_window_needs_no_sideways_scrolling(visit: Visit) -> None:
    visit.page.set_viewport_size({"width": 360, "height": 740})
    visit.open().enter_key()
    reply_shown(visit.create_payment(), "201")
    assert visit.page.evaluate("document.documentElement.scrollWidth") == 360


def keys_of(visit: Visit) -> list[str]:
    """The keys of the sandboxes that the dashboard offers."""
    return [str(key) for key in visit.page.evaluate("JSON.parse(localStorage['paymock.keys'] ?? '[]')")]


def test_key_of_the_open_sandbox_is_taken_over(visit: Visit) -> None:
    visit.page.add_init_script(f"sessionStorage.setItem('paymock.key', '{API_KEY}')")
    expect(visit.open().page.get_by_role("banner")).to_contain_text("Sandbox demo")
    reply_shown(visit.create_payment(), "201")
    assert visit.complaints() == []


def test_key_that_is_entered_is_kept_for_the_dashboard_and_for_a_reload(visit: Visit) -> None:
    visit.open()
    expect(visit.page.get_by_role("banner")).to_contain_text("No sandbox is open")
    visit.enter_key()
    expect(visit.page.get_by_role("banner")).to_contain_text("Sandbox demo")
    assert keys_of(visit) == [API_KEY]
    visit.open()
    reply_shown(visit.create_payment(), "201")
    visit.page.get_by_role("link", name="Dashboard").click()
    expect(visit.page.locator("#sandbox")).to_have_text("Sandbox demo")


def test_each_request_has_a_new_idempotency_key_unless_one_is_entered(visit: Visit) -> None:
    visit.open().enter_key()
    create = visit.create_payment()
    first = reply_shown(create, "201")["id"]
    field = create.get_by_label("Idempotency-Key")
    expect(field).not_to_have_value("")
    proposed = field.input_value()
    with visit.page.expect_response("**/v1/payments") as reply:
        create.get_by_role("button", name="Execute").click()
    second = reply.value.json()["id"]
    assert second != first
    expect(field).not_to_have_value(proposed)
    field.fill("a-key-of-my-own")
    bodies = []
    for _ in range(2):
        with visit.page.expect_response("**/v1/payments") as reply:
            create.get_by_role("button", name="Execute").click()
        bodies.append(reply.value.body())
        expect(field).to_have_value("a-key-of-my-own")
    assert bodies[0] == bodies[1]


@pytest.mark.parametrize("path", ["/swagger/", "/swagger/control/"])
def test_first_operation_is_near_the_top(visit: Visit, path: str) -> None:
    visit.page.set_viewport_size({"width": 1440, "height": 900})
    expect(visit.open(path).page.locator(".opblock").first).to_be_in_viewport(ratio=1)


@pytest.mark.parametrize("scheme", ["light", "dark"])
@pytest.mark.parametrize(
    ("path", "operation"), [("/swagger/", "createPayment"), ("/swagger/control/", "advancePayment")]
)
def test_page_can_be_used_by_everybody(
    visit: Visit, path: str, operation: str, scheme: Literal["light", "dark"]
) -> None:
    visit.page.emulate_media(color_scheme=scheme)
    visit.open(path).authorize.click()
    expect(visit.dialog).to_be_visible()
    assert violations(visit.page) == []
    visit.page.keyboard.press("Escape")
    visit.open(path).enter_key()
    assert violations(visit.page) == []
    block = visit.operation(operation)
    assert violations(visit.page) == []
    if operation == "createPayment":
        block.get_by_role("button", name="Execute").click()
        reply_shown(block, "201")
        assert violations(visit.page) == []


def test_without_the_control_api_no_page_leads_to_a_dashboard(browser: Browser) -> None:
    with running_server(Settings(port=0, control=False)) as server, browser.new_context() as context:
        visit = Visit(context.new_page(), server.url)
        visit.open().enter_key()
        expect(visit.page.get_by_role("link", name="Dashboard")).to_have_count(0)
        reply_shown(visit.create_payment(), "201")
        assert visit.complaints() == []


def test_control_api_is_the_second_document(visit: Visit) -> None:
    page = visit.open().page
    page.get_by_role("link", name="The control API").click()
    page.wait_for_url("**/swagger/control/")
    expect(page.get_by_role("heading", name="paymock control API")).to_be_visible()
    assert visit.origin + "/_mock/openapi.yaml" in visit.requested
    assert visit.complaints() == []
