"""The checkout on the sites of others: embedded in them, or followed by a page of their own."""

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

import httpx
import pytest
from playwright.sync_api import Browser, Error, Page, expect

from paymock.settings import Settings
from tests.support import markdown
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server
from tests.support.snippets import SERVER
from tests.web.pages.steps import Sandbox


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


@contextmanager
def embedding(
    browser: Browser, contract: Contract, ancestor: str | None = None
) -> Iterator[tuple[Page, Callable[[], None]]]:
    """A page of a shop, and what embeds a checkout there, whose server lets `ancestor`, or else that shop,
    do so.
    """
    html = "<!doctype html><title>Shop</title><iframe></iframe>"
    with shop(html) as origin, browser.new_context() as context:
        settings = Settings(port=0, frame_ancestors=(ancestor or origin,))
        with running_server(settings) as server, Sandbox(server.url, contract) as api:
            page = context.new_page()
            page.goto(origin)
            address = f"{server.url}/checkout/{api.created()['id']}"
            frame = page.locator("iframe")
            yield page, lambda: frame.evaluate("(frame, address) => { frame.src = address }", address)


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
        with embedding(browser, contract) as (page, embed):
            embed()
            frame = page.frame_locator("iframe")
            expect(frame.get_by_role("heading", level=1)).to_have_text("Waiting for your payment")
            frame.get_by_role("button", name="Copy address").click()
            expect(frame.get_by_role("status").filter(has_text="Copied")).to_have_count(1)

    def test_is_refused_on_any_other_site(self, browser: Browser, contract: Contract) -> None:
        with embedding(browser, contract, "https://another.example") as (page, embed):
            with page.expect_console_message(lambda message: "frame-ancestors" in message.text) as complaint:
                embed()
            assert "frame-ancestors https://another.example" in complaint.value.text
            expect(page.frame_locator("iframe").get_by_text("Waiting for your payment")).to_have_count(0)

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
