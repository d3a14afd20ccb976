"""The site that `scripts/docs` builds: it works from its folder, offline; scripts/docs resolves its links."""

import subprocess
import sys
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from tests.support import markdown

if TYPE_CHECKING:
    from playwright.sync_api import Browser

pytestmark = pytest.mark.nightly

QUERIES = Path(__file__).with_name("search_queries.txt")
"""What users search for, each with the page or section that is among the first three hits."""


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The site, which is not built if a link is broken or a page is not in the navigation."""
    folder = tmp_path_factory.mktemp("site")
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    ended = subprocess.run(command, cwd=markdown.ROOT, capture_output=True, text=True, check=False)
    assert ended.returncode == 0, ended.stderr
    return folder


def test_search_copying_and_accessibility(site: Path, browser: "Browser") -> None:
    from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
    from playwright.sync_api import expect

    with browser.new_context(offline=True, permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.set_viewport_size({"width": 360, "height": 800})
        page.goto(f"file://{site}/index.html")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.get_by_role("button", name="Menu").press("Enter")
        page.get_by_role("link", name="Concepts", exact=True).first.press("Enter")
        page.wait_for_url("**/concepts.html")
        page.go_back()
        page.set_viewport_size({"width": 1600, "height": 800})
        axe = Axe().run(page)
        assert axe.violations_count == 0, axe.generate_report()
        page.get_by_role("button", name="Copy").first.press("Enter")
        expect(page.get_by_role("button", name="Copied")).to_have_count(1)
        assert page.evaluate("navigator.clipboard.readText()") == "scripts/run\n"

        search = page.get_by_role("searchbox", name="Search")
        first = page.get_by_role("search").get_by_role("link").first
        search.fill("backup")
        expect(first).to_contain_text("Backup")
        expected = dict(line.rsplit(": ", 1) for line in QUERIES.read_text(encoding="utf-8").splitlines())
        found = page.evaluate(
            "queries => queries.map(one => search(one).map(hit => hit.section.url))", [*expected]
        )
        for (query, target), urls in zip(expected.items(), found, strict=True):
            assert any(f"{url}#".startswith(f"{target}#") for url in urls[:3]), (query, urls[:3])
            assert not urls[0].startswith(("CHANGELOG", "skills")), query
        search.fill("underpayd")
        expect(page.get_by_role("status")).to_have_text("Nothing found. Did you mean “underpaid”?")
        search.fill("drop closed without reply")
        expect(first).to_contain_text("All faults")
        page.keyboard.press("Enter")
        page.wait_for_url(f"file://{site}/faults.html#all-faults")
