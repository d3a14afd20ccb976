"""The site that `scripts/docs` builds: it works from its folder, offline, and its links resolve."""

import re
import shutil
import subprocess
import sys
from pathlib import Path
from urllib.parse import unquote

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import Browser, expect

from tests.support import markdown
from tests.support.browser import Visit
from tests.support.markdown import PAGES

pytestmark = pytest.mark.nightly

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")


def build(folder: Path, source: Path = markdown.ROOT) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "mkdocs", "build", "--strict", "--site-dir", str(folder)]
    return subprocess.run(command, cwd=source, capture_output=True, text=True, timeout=120, check=False)


@pytest.fixture(scope="module")
def site(tmp_path_factory: pytest.TempPathFactory) -> Path:
    folder = tmp_path_factory.mktemp("site")
    pages = build(folder)
    assert pages.returncode == 0, pages.stderr
    return folder


def test_broken_links_and_pages_without_navigation_fail(tmp_path: Path) -> None:
    for name in ("deploy", "docs", "examples", "src", ".github"):
        shutil.copytree(markdown.ROOT / name, tmp_path / name, ignore=shutil.ignore_patterns("node_modules"))
    for path in (*markdown.ROOT.glob("*.md"), markdown.ROOT / "mkdocs.yml", markdown.ROOT / "LICENSE"):
        shutil.copy(path, tmp_path)
    (tmp_path / "docs" / "alone.md").write_text("# Alone")
    with (tmp_path / "README.md").open("a") as file:
        file.write("\n[a page](docs/no.md) [a heading](docs/stores.md#no) [a file](examples/no.json)\n")
    pages = build(tmp_path / "site", tmp_path)
    assert pages.returncode == 1
    assert "'no.md', but the target is not found" in pages.stderr
    assert "does not contain an anchor '#no'" in pages.stderr
    assert "'examples/no.json', but the target is not found" in pages.stderr
    assert 'not included in the "nav" configuration:\n  - alone.md' in pages.stderr
    assert pages.stderr.count("WARNING") == 4


def test_every_page_is_built(site: Path) -> None:
    pages = {str(path.relative_to(site)) for path in site.rglob("*.html")}
    expected = (page.removeprefix("docs/").removesuffix(".md") + ".html" for page in PAGES)
    assert pages == {page.replace("README.html", "index.html") for page in expected}


def test_links_within_the_site_resolve(site: Path) -> None:
    pages = {path.resolve(): path.read_text(encoding="utf-8") for path in site.rglob("*.html")}
    for path, html in pages.items():
        for target in re.findall(r'(?:href|src)="([^"]+)"', html):
            if re.match("[a-z]+:", target):
                continue
            file, _, anchor = target.partition("#")
            found = (path.parent / unquote(file)).resolve() if file else path
            assert found.is_file(), f"{path.name}: {target}"
            assert not anchor or f'id="{unquote(anchor)}"' in pages[found], f"{path.name}: {target}"


def test_pages_load_offline_from_the_folder(site: Path, browser: Browser) -> None:
    with browser.new_context(offline=True) as context:
        for path in sorted(site.rglob("*.html")):
            visit = Visit(context.new_page(), f"file://{site}")
            visit.page.goto(f"file://{path}")
            expect(visit.page.get_by_role("heading", level=1)).to_have_count(1)
            broken = "() => [...document.images].filter(image => !image.naturalWidth).map(image => image.src)"
            assert (visit.page.evaluate(broken), visit.foreign(), visit.complaints()) == ([], [], []), (
                path.name
            )
            visit.page.close()


def test_search_finds_sections_by_their_words(site: Path, browser: Browser) -> None:
    with browser.new_context(offline=True) as context:
        page = context.new_page()
        page.goto(f"file://{site}/examples/java/index.html")
        page.get_by_role("searchbox", name="Search").fill("drop closed without reply")
        expect(page.get_by_role("status")).to_contain_text("found")
        first = page.get_by_role("search").get_by_role("link").first
        expect(first).to_contain_text("All faults")
        page.keyboard.press("Enter")
        page.wait_for_url(f"file://{site}/faults.html#all-faults")
        page.get_by_role("searchbox", name="Search").fill("nothing has these words")
        expect(page.get_by_role("status")).to_have_text("0 found")


def test_a_block_is_copied_by_keyboard(site: Path, browser: Browser) -> None:
    with browser.new_context(offline=True, permissions=["clipboard-read", "clipboard-write"]) as context:
        page = context.new_page()
        page.goto(f"file://{site}/index.html")
        copy = page.get_by_role("button", name="Copy").first
        copy.focus()
        page.keyboard.press("Enter")
        expect(page.get_by_role("button", name="Copied")).to_have_count(1)
        assert page.evaluate("navigator.clipboard.readText()") == "scripts/run\n"


@pytest.mark.parametrize("name", ["index", "concepts", "configuration"])
def test_pages_are_accessible_and_fit_a_phone(site: Path, browser: Browser, name: str) -> None:
    with browser.new_context(viewport={"width": 360, "height": 800}) as context:
        page = context.new_page()
        page.goto(f"file://{site}/{name}.html")
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth")
        page.set_viewport_size({"width": 1600, "height": 800})
        for scheme, rules in (("light", RULES), ("dark", ["color-contrast"])):
            page.emulate_media(color_scheme="light" if scheme == "light" else "dark")
            found = Axe().run(page, options={"runOnly": list(rules)})
            assert found.violations_count == 0, found.generate_report()
