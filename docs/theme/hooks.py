"""mkdocs hooks that build a site from pages that are written for the repository.

The site has the paths of the repository, without `docs/`. README.md is its home page. Files that a page links
to are copied, so that only links to the Internet leave the folder.
"""

import json
import os
import re
from collections.abc import Iterator
from html import unescape
from pathlib import Path
from typing import Any, NamedTuple

from mkdocs.config.defaults import MkDocsConfig
from mkdocs.structure.files import File, Files
from mkdocs.structure.pages import Page

ROOT = Path(__file__).resolve().parents[2]
ICON = ROOT / "src" / "paymock" / "web" / "pages" / "static" / "pages" / "icon.svg"
_LINK = re.compile(r"(?<=\]\()(?![a-z]+:|#)([^)#\s]+)")
_FENCE = re.compile(r"(^```.*?^```$)", re.MULTILINE | re.DOTALL)
_SECTION = re.compile(r'(?=<h[123] id=")')
_HEADING = re.compile(r'<h[123] id="([^"]*)">(.*?)</h[123]>', re.DOTALL)


class Section(NamedTuple):
    """A section of a page, for the search."""

    url: str
    group: str  # of the navigation
    page: str
    title: str
    text: str


_sections: list[Section] = []


def on_config(config: MkDocsConfig) -> MkDocsConfig:
    """Use the heading anchors of the repository, so that links work in both."""
    config.mdx_configs["toc"] = {
        "slugify": lambda text, _: re.sub(r"[^\w -]", "", text.lower()).replace(" ", "-")
    }
    config.theme.static_templates.clear()  # the sitemap
    return config


def on_files(files: Files, config: MkDocsConfig) -> Files:
    """Add the pages outside docs/, and every file that a page links to."""
    ahead = [ROOT / "README.md", *(ROOT / "docs").glob("*.md")]
    seen = set(ahead)
    while ahead:
        page = ahead.pop()
        for target in _linked(page):
            if target not in seen and target.is_file():
                seen.add(target)
                ahead += [target] if target.suffix == ".md" else []
    for path, name in [(ICON, ICON.name), *((path, _on_site(path)) for path in sorted(seen))]:
        if not files.get_file_from_path(name):
            files.append(File.generated(config, name, abs_src_path=str(path)))
    return files


def on_page_markdown(text: str, page: Page, **_: Any) -> str:
    """Rewrite links to the paths of the site."""
    source = Path(str(page.file.abs_src_path))
    here = Path(page.file.src_uri).parent

    def on_site(match: re.Match[str]) -> str:
        return os.path.relpath(_on_site((source.parent / match[1]).resolve()), here)

    parts = _FENCE.split(text)
    return "".join(part if part.startswith("```") else _LINK.sub(on_site, part) for part in parts)


def on_page_content(html: str, page: Page, **_: Any) -> str:
    """Make wide elements scrollable by keyboard, and collect the sections for the search."""
    group = str(page.parent.title) if page.parent else ""
    for part in _SECTION.split(html):
        if heading := _HEADING.match(part):
            title, text = (
                " ".join(unescape(re.sub("<[^>]+>", " ", some)).split())
                for some in (heading[2], part[heading.end() :])
            )
            _sections.append(Section(f"{page.url}#{heading[1]}", group, str(page.title), title, text))
    html = re.sub(r'(href="[^":]*)%40', r"\1@", html)  # the file name as it is, also without decoding
    html = html.replace("<th></th>", "<td></td>")  # an empty corner cell is not a heading
    html = html.replace("<table>", '<div class="wide" tabindex="0"><table>').replace(
        "</table>", "</table></div>"
    )
    return html.replace("<pre>", '<pre tabindex="0">')


def on_post_build(config: MkDocsConfig) -> None:
    """Write the search index as a script, because a page of a file: URL cannot fetch other files."""
    index = json.dumps([section._asdict() for section in _sections], separators=(",", ":"))
    (Path(config.site_dir) / "sections.js").write_text(f"const sections = {index};\n", encoding="utf-8")


def _linked(page: Path) -> Iterator[Path]:
    for part in _FENCE.split(page.read_text(encoding="utf-8")):
        if not part.startswith("```"):
            yield from ((page.parent / match[1]).resolve() for match in _LINK.finditer(part))


def _on_site(path: Path) -> str:
    return path.relative_to(ROOT).as_posix().removeprefix("docs/")
