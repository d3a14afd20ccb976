"""The checkout on the sites of others: embedded in them, or followed by a page of their own."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

from playwright.sync_api import BrowserContext, FrameLocator, Page, expect

from paymock.settings import Settings
from tests.support import markdown
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server
from tests.support.snippets import SERVER
from tests.support.specification import COURSES
from tests.web.pages.sandbox import Sandbox

SHOP = """<!doctype html><title>Shop</title><script>
window.messages = [];
addEventListener("message", ({ origin, data }) => messages.push({ origin, data }));
</script><iframe width="360" height="640" allow="clipboard-write" frameborder="0"></iframe>"""


@contextmanager
def shop(context: BrowserContext, html: str) -> Iterator[Page]:
    """The page of a site that consists of one."""

    class Site(BaseHTTPRequestHandler):
        def do_GET(self) -> None:
            self.send_response(200)
            self.send_header("Content-Type", "text/html")
            self.end_headers()
            self.wfile.write(html.encode())

        def log_message(self, *_: object) -> None:
            pass

    with ThreadingHTTPServer(("127.0.0.1", 0), Site) as site, context.new_page() as page:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            page.goto(f"http://127.0.0.1:{site.server_port}")
            yield page
        finally:
            site.shutdown()
            thread.join()


def example(language: str) -> str:
    """The example in this language in docs/pages.md."""
    [text] = [
        block.text for block in markdown.blocks(markdown.read("docs/pages.md")) if block.language == language
    ]
    return text


class Embedding(NamedTuple):
    """A page of a shop with a frame that shows a checkout, the payment, and the backend of the shop."""

    page: Page
    frame: FrameLocator
    payment: Json
    api: Sandbox


@contextmanager
def embedding(context: BrowserContext, contract: Contract) -> Iterator[Embedding]:
    """A page of a shop, whose frame shows the checkout of a server that lets it."""
    settings = Settings(port=0, frame_ancestors=("http://127.0.0.1:*",))
    with running_server(settings) as server, Sandbox(server.url, contract) as api:
        api.speed(0)
        payment = api.created("happy_path")
        with shop(context, SHOP) as page:
            address = f"{server.url}/checkout/{payment['id']}"
            page.locator("iframe").evaluate("(frame, address) => { frame.src = address }", address)
            yield Embedding(page, page.frame_locator("iframe"), payment, api)


def test_page_of_ones_own_follows_a_payment_with_the_script_of_the_documentation(
    context: BrowserContext, server: RunningServer, api: Sandbox
) -> None:
    script = f"const id = '{api.created()['id']}'; {example('js').replace(SERVER, server.url)}"
    with shop(context, f"<!doctype html><body><script type='module'>{script}</script>") as page:
        expect(page.locator("body")).to_have_text("Waiting for your payment: 1.01, 30 s left")
        api.advance(5)
        expect(page.locator("body")).to_have_text("Payment detected: 1.01, 25 s left")


class TestEmbedding:
    def test_fits_and_tells_each_status_once(self, context: BrowserContext, contract: Contract) -> None:
        with embedding(context, contract) as shown:
            expect(shown.frame.get_by_role("heading", level=1)).to_have_text("Waiting for your payment")
            shown.frame.get_by_role("button", name="Copy address").click()
            expect(shown.frame.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
            shown.frame.get_by_text("Details").click()
            size = "node => [node.ownerDocument.scrollingElement.scrollWidth, innerWidth]"
            scroll, inner = shown.frame.locator("body").evaluate(size)
            assert scroll <= inner == 360
            now = 0
            for at, status in COURSES["happy_path"]:
                shown.api.advance(at - now or 0.001)
                now = at
                shown.page.wait_for_function("status => messages.at(-1)?.data.status === status", arg=status)
                if status == "payment_detected":  # confirmations are not told
                    shown.api.advance(2)
                    now += 2
                    expect(shown.frame.get_by_text("4/16")).to_be_visible()
            messages: list[Json] = shown.page.evaluate("messages")
            assert {message["origin"] for message in messages} == {str(shown.api.base_url).rstrip("/")}
            told = [message["data"] for message in messages]
            assert [data["status"] for data in told] == [status for _, status in COURSES["happy_path"]]
            public = shown.api.checkout(shown.payment)  # what the holder of the address can read
            names = ("payment_id", "order_id", "status", "view", "final")
            own = {"source": "paymock", "type": "payment.status"}
            assert told[-1] == own | {name: public[name] for name in names}

    def test_is_followed_as_documented(self, context: BrowserContext, contract: Contract) -> None:
        with embedding(context, contract) as shown:
            html = re.sub(r"pay_[a-z2-7]{40}", shown.payment["id"], example("html"))
            html = html.replace(SERVER, str(shown.api.base_url).rstrip("/"))
            with shop(context, f"<!doctype html><title>Shop</title>{html}") as page:
                said = page.locator("output")
                expect(said).to_have_text("awaiting_payment")
                page.evaluate("postMessage({ type: 'payment.status', status: 'x', final: true })")
                shown.api.advance(5)
                expect(said).to_have_text("payment_detected")
                shown.api.advance(40)
                expect(said).to_have_text("completed")
                expect(page.locator("iframe")).to_have_count(0)
