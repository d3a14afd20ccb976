"""A real browser, and pages in it whose requests and complaints are kept."""

import asyncio
import shutil
from collections.abc import Iterator
from contextlib import contextmanager

from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, ConsoleMessage, Dialog, Page, expect, sync_playwright

from harness.browser import LAUNCH_ARGUMENTS

PATIENCE_MS = 15_000
"""How long something may take until it is taken for missing; on a busy machine, much takes long."""

REPORT_VIOLATIONS = """addEventListener("securitypolicyviolation", event =>
    console.error(`violates ${event.effectiveDirective}`))"""


@contextmanager
def chromium() -> Iterator[Browser]:
    """A browser for the length of the block. Meanwhile this thread has a running event loop, see
    `running_loop`.
    """
    executable = shutil.which("chromium")
    expect.set_options(timeout=PATIENCE_MS)
    with (
        sync_playwright() as playwright,
        playwright.chromium.launch(executable_path=executable, args=LAUNCH_ARGUMENTS) as browser,
    ):
        yield browser


@contextmanager
def running_loop(loop: asyncio.AbstractEventLoop | None) -> Iterator[None]:
    """Within the block, `loop` is the one that runs in this thread. Playwright keeps its own running between
    its calls, so that tests which use `asyncio.run` could not share a process with it.
    """
    before = asyncio._get_running_loop()
    asyncio._set_running_loop(loop)
    try:
        yield
    finally:
        asyncio._set_running_loop(before)


class Visit:
    """A page, with all that it has requested and complained about."""

    def __init__(self, page: Page, origin: str) -> None:
        self.page = page
        self.origin = origin
        self.requested: list[str] = []
        self.dialogs: list[str] = []
        self._complaints: list[str] = []
        page.set_default_timeout(PATIENCE_MS)
        page.add_init_script(REPORT_VIOLATIONS)
        page.on("request", lambda request: self.requested.append(request.url))
        page.on("console", self._heard)
        page.on("pageerror", lambda error: self._complaints.append(str(error)))
        page.on("dialog", self._asked)

    def complaints(self) -> list[str]:
        self.page.evaluate("() => new Promise(done => requestAnimationFrame(() => setTimeout(done)))")
        return self._complaints

    def foreign(self) -> list[str]:
        return [url for url in self.requested if not url.startswith((f"{self.origin}/", "blob:", "data:"))]

    def _heard(self, message: ConsoleMessage) -> None:
        if message.type in {"warning", "error"}:
            self._complaints.append(message.text)

    def _asked(self, dialog: Dialog) -> None:
        self.dialogs.append(dialog.message)
        dialog.dismiss()


TAGS = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


def violations(page: Page, rule: str | None = None) -> list[str]:
    """The violations of all rules, or of one: the name of the rule, and where it is broken."""
    selection = {"type": "rule", "values": [rule]} if rule else {"type": "tag", "values": TAGS}
    options = {"resultTypes": ["violations"], "runOnly": selection}
    found = Axe().run(page, options=options).response["violations"]
    return [f"{broken['id']}: {node['target']}" for broken in found for node in broken["nodes"]]
