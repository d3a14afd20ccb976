"""The checkout on the sites of others: embedded in them, or followed by a page of their own."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple
from urllib.parse import urlsplit

import httpx
import pytest
from playwright.sync_api import Browser, Error, FrameLocator, Page, expect

from paymock.settings import Settings
from tests.support import markdown
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server
from tests.support.snippets import SERVER
from tests.support.specification import COURSES
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, checkout_page

KEEP_MESSAGES = """window.messages = [];
addEventListener("message", ({ origin, data }) => messages.push({ origin, data }));"""
SHOP = f"""<!doctype html><title>Shop</title><script>{KEEP_MESSAGES}</script>
<iframe width="360" height="640" allow="clipboard-write" frameborder="0"></iframe>"""


def origin_of(url: str) -> str:
    """The origin of a URL."""
    parts = urlsplit(url)
    return f"{parts.scheme}://{parts.netloc}"


@contextmanager
def shop(html: str) -> Iterator[str]:
    """The origin of a site that consists of one page."""

    class Page(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Page) as site:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        yield f"http://127.0.0.1:{site.server_port}"
        site.shutdown()
        thread.join()


class Embedding(NamedTuple):
    """A page of a shop with an empty frame and a list of the messages that it gets; a payment, its checkout,
    and the backend of the shop.
    """

    page: Page
    checkout: str
    payment: Json
    api: Sandbox

    def embed(self) -> None:
        """Shows the checkout in the frame."""
        self.page.locator("iframe").evaluate("(frame, address) => { frame.src = address }", self.checkout)

    @property
    def frame(self) -> FrameLocator:
        return self.page.frame_locator("iframe")

    def messages(self) -> list[Json]:
        """Those that the page has got, with their origins."""
        found: list[Json] = self.page.evaluate("messages")
        return found


@contextmanager
def embedding(browser: Browser, contract: Contract, ancestor: str | None = None) -> Iterator[Embedding]:
    """A page of a shop, and a checkout whose server lets `ancestor`, or else that shop, embed it."""
    with shop(SHOP) as origin, browser.new_context() as context:
        settings = Settings(port=0, frame_ancestors=(ancestor or origin,))
        with running_server(settings) as server, Sandbox(server.url, contract) as api:
            api.speed(0)
            page = context.new_page()
            page.goto(origin)
            payment = api.created("happy_path")
            yield Embedding(page, f"{server.url}/checkout/{payment['id']}", payment, api)


class TestAPageOfOnesOwn:
    def test_follows_a_payment_with_the_script_of_the_documentation(
        self, browser: Browser, server: RunningServer, api: Sandbox
    ) -> None:
        [script] = [
            block.text for block in markdown.blocks(markdown.read("docs/pages.md")) if block.language == "js"
        ]
        script = f"const id = '{api.created()['id']}'; {script.replace(SERVER, server.url)}"
        html = f"<!doctype html><title>Shop</title><body><script type='module'>{script}</script>"
        with shop(html) as origin, browser.new_context() as context:
            page = context.new_page()
            page.goto(origin)
            expect(page.locator("body")).to_have_text("Waiting for your payment: 1.01, 30 s left")
            api.advance(5)
            expect(page.locator("body")).to_have_text("Payment detected: 1.01, 25 s left")


class TestEmbedding:
    def test_works_on_a_site_that_the_operator_names(self, browser: Browser, contract: Contract) -> None:
        with embedding(browser, contract) as shown:
            shown.embed()
            expect(shown.frame.get_by_role("heading", level=1)).to_have_text("Waiting for your payment")
            for what in ("amount", "address"):
                shown.frame.get_by_role("button", name=f"Copy {what}").click()
                expect(shown.frame.get_by_role("status").filter(has_text="Copied")).to_have_count(1)

    def test_fits_into_a_narrow_frame(self, browser: Browser, contract: Contract) -> None:
        with embedding(browser, contract) as shown:
            shown.embed()
            shown.frame.get_by_text("Details").click()
            size = "node => [node.ownerDocument.scrollingElement.scrollWidth, innerWidth]"
            scroll, inner = shown.frame.locator("body").evaluate(size)
            assert scroll <= inner == 360

    def test_is_refused_on_any_other_site_which_learns_nothing(
        self, browser: Browser, contract: Contract
    ) -> None:
        with embedding(browser, contract, "https://another.example") as shown:
            with shown.page.expect_console_message(
                lambda message: "frame-ancestors" in message.text
            ) as complaint:
                shown.embed()
            assert "frame-ancestors https://another.example" in complaint.value.text
            shown.api.advance(45)
            expect(shown.frame.get_by_text("Waiting for your payment")).to_have_count(0)
            assert shown.messages() == []

    def test_tells_the_page_around_it_each_status_once(self, browser: Browser, contract: Contract) -> None:
        with embedding(browser, contract) as shown:
            shown.embed()
            now = 0
            for at, status in COURSES["happy_path"]:
                shown.api.advance(at - now or 0.001)
                now = at
                shown.page.wait_for_function("status => messages.at(-1)?.data.status === status", arg=status)
                if status == "payment_detected":  # confirmations are not told
                    shown.api.advance(2)
                    now += 2
                    expect(shown.frame.get_by_text("4/16")).to_be_visible()
            messages = shown.messages()
            assert [message["data"]["status"] for message in messages] == [
                status for _, status in COURSES["happy_path"]
            ]
            assert {message["origin"] for message in messages} == {origin_of(shown.checkout)}
            assert [messages[index]["data"] for index in (0, -1)] == [
                {
                    "source": "paymock",
                    "type": "payment.status",
                    "payment_id": shown.payment["id"],
                    "order_id": "order-1001",
                    "status": status,
                    "view": view,
                    "final": final,
                }
                for status, view, final in (
                    ("awaiting_payment", "pay", False),
                    ("completed", "complete", True),
                )
            ]
            public = shown.api.checkout(shown.payment)
            own = {"source", "type"}
            for message in messages:  # nothing that the holder of the address could not read
                assert {*message["data"]} - own <= {*public}

    def test_tells_nobody_when_it_is_a_page_of_its_own(
        self, new_tab: NewTab, api: Sandbox, server: RunningServer
    ) -> None:
        tab = new_tab()
        tab.page.add_init_script(KEEP_MESSAGES)
        checkout_page(tab, api.created("happy_path"))
        api.advance(5)
        expect(tab.headline).to_have_text("Payment detected")
        assert tab.page.evaluate("messages") == []

    def test_is_followed_by_the_page_of_the_documentation(self, browser: Browser, contract: Contract) -> None:
        [html] = [
            block.text
            for block in markdown.blocks(markdown.read("docs/pages.md"))
            if block.language == "html"
        ]
        with embedding(browser, contract, "*") as shown:
            server = origin_of(shown.checkout)
            html = re.sub(r"pay_[a-z2-7]{40}", shown.payment["id"], html).replace(SERVER, server)
            with shop(f"<!doctype html><title>Shop</title>{html}") as origin:
                shown.page.goto(origin)
                said = shown.page.locator("output")
                expect(said).to_have_text("awaiting_payment")
                shown.page.evaluate("postMessage({ type: 'payment.status', status: 'x', final: true })")
                shown.api.advance(5)
                expect(said).to_have_text("payment_detected")
                shown.api.advance(40)
                expect(said).to_have_text("completed")
                expect(shown.page.locator("iframe")).to_have_count(0)

    @pytest.mark.parametrize(
        ("ancestors", "policy"),
        [
            ((), "'none'"),
            (("https://a.example", "https://b.example:*"), "https://a.example https://b.example:*"),
        ],
    )
    def test_is_a_matter_of_the_checkout_alone(
        self, contract: Contract, ancestors: tuple[str, ...], policy: str
    ) -> None:
        settings = Settings(port=0, frame_ancestors=ancestors)
        with running_server(settings) as server, Sandbox(server.url, contract) as api:
            checkout, dashboard = f"/checkout/{api.created()['id']}", "/"
            for path, expected in ((checkout, policy), (dashboard, "'none'")):
                header = httpx.get(server.url + path).headers["content-security-policy"]
                assert header.endswith(f"; frame-ancestors {expected}")


FETCH = """async ([url, method, headers]) => {
    const reply = await fetch(url, {method, headers});
    return [reply.status, reply.headers.get("Allow"), reply.headers.get("WWW-Authenticate")];
}"""


class TestCrossOriginRequests:
    def test_that_fails_says_why(self, browser: Browser, server: RunningServer, api: Sandbox) -> None:
        key = {"Authorization": f"Bearer {api.api_key}"}
        long = {**key, "Idempotency-Key": "x" * 20_000}
        with shop("<!doctype html><title>Shop</title>") as origin, browser.new_context() as context:
            page = context.new_page()
            page.goto(origin)

            def fetched(path: str, method: str = "GET", headers: dict[str, str] = key) -> list[object]:
                result: list[object] = page.evaluate(FETCH, [server.url + path, method, headers])
                return result

            assert fetched("/v1/paymets") == [404, None, None]
            assert fetched("/v1/payments", "PUT") == [405, "POST, OPTIONS", None]
            assert fetched("/v1/chains", "FOO") == [405, "GET, HEAD, OPTIONS", None]
            assert fetched("/v1/chains", headers={"X-Mock-Scenario": "x"})[::2] == [
                401,
                'Bearer realm="paymock"',
            ]
            assert fetched("/v1/chains", headers=long)[0] == 431
            assert fetched("/openapi.yaml", headers={})[0] == 200
            assert fetched("/_mock/openapi.yaml", headers={})[0] == 200
            with pytest.raises(Error, match="Failed to fetch"):
                fetched("/_mock/clock")
            with pytest.raises(Error, match="Failed to fetch"):
                fetched("/_mock/nothing")
