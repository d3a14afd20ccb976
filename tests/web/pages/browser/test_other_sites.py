"""The checkout on the sites of others: embedded in them, or followed by a page of their own."""

import re
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from functools import partial
from http.server import SimpleHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path

from playwright.sync_api import BrowserContext, Page, expect

from paymock.settings import Settings
from tests.support import markdown
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server
from tests.support.snippets import SERVER
from tests.support.specification import COURSES
from tests.web.pages.sandbox import Sandbox

RECORD_MESSAGES = """window.messages = [];
addEventListener("message", ({ origin, data }) => messages.push({ origin, data }));"""


@contextmanager
def shop(context: BrowserContext, folder: Path, body: str) -> Iterator[Page]:
    html = f"<!doctype html><title>Shop</title><script>{RECORD_MESSAGES}</script><body>{body}"
    (folder / "index.html").write_text(html, "utf-8")
    handler = partial(SimpleHTTPRequestHandler, directory=str(folder))
    with ThreadingHTTPServer(("127.0.0.1", 0), handler) as site, context.new_page() as page:
        thread = threading.Thread(target=site.serve_forever)
        thread.start()
        try:
            page.goto(f"http://127.0.0.1:{site.server_port}")
            yield page
        finally:
            site.shutdown()
            thread.join()


def example(language: str) -> str:
    [text] = [
        block.text for block in markdown.blocks(markdown.read("docs/pages.md")) if block.language == language
    ]
    return text


def test_page_of_ones_own_follows_a_payment_with_the_script_of_the_documentation(
    context: BrowserContext, server: RunningServer, api: Sandbox, tmp_path: Path
) -> None:
    script = f"const id = '{api.created()['id']}'; {example('js').replace(SERVER, server.url)}"
    with shop(context, tmp_path, f"<script type='module'>{script}</script>") as page:
        expect(page.locator("body")).to_have_text("Waiting for your payment: 1.01, 30 s left")
        api.advance(5)
        expect(page.locator("body")).to_have_text("Payment detected: 1.01, 25 s left")


def test_embedded_checkout_works_as_documented(
    context: BrowserContext, contract: Contract, tmp_path: Path
) -> None:
    settings = Settings(port=0, frame_ancestors=("http://127.0.0.1:*",))
    with running_server(settings) as server, Sandbox(server.url, contract) as api:
        api.speed(0)
        payment = api.created("happy_path")
        html = re.sub(r"pay_[a-z2-7]{40}", payment["id"], example("html")).replace(SERVER, server.url)
        with shop(context, tmp_path, html) as page:
            frame, said = page.frame_locator("iframe"), page.locator("output")
            expect(frame.get_by_role("heading", level=1)).to_have_text("Waiting for your payment")
            frame.get_by_role("button", name="Copy address").click()
            expect(frame.get_by_role("status").filter(has_text="Copied")).to_have_count(1)
            frame.get_by_text("Details").click()
            size = "node => [node.ownerDocument.scrollingElement.scrollWidth, innerWidth]"
            scroll, inner = frame.locator("body").evaluate(size)
            assert scroll <= inner == 360
            expect(said).to_have_text("awaiting_payment")
            height = frame.locator("html").evaluate("html => html.offsetHeight")
            expect(page.locator("iframe")).to_have_attribute("height", str(height))
            page.evaluate("postMessage({ type: 'payment.status', status: 'x', final: true })")
            api.advance(5)
            expect(said).to_have_text("payment_detected")
            api.advance(2)  # confirmations are not told
            expect(frame.get_by_text("4/16")).to_be_visible()
            now = 7
            for at, status in COURSES["happy_path"][2:]:
                api.advance(at - now)
                now = at
                expect(said).to_have_text(status)
            expect(page.locator("iframe")).to_have_count(0)
            messages: list[Json] = page.evaluate("messages")
        told = [message["data"] for message in messages if message["origin"] == server.url]
        assert [*dict.fromkeys(data["status"] for data in told)] == [
            status for _, status in COURSES["happy_path"]
        ]
        public = api.checkout(payment)  # what the holder of the address can read
        names = ("payment_id", "order_id", "status", "view", "final")
        own = {"source": "paymock", "type": "payment.status"}
        assert told[-1] == own | {name: public[name] for name in names} | {"height": told[-1]["height"]}
