"""Parsing of Markdown pages: code blocks, sections, markers, links."""

import re
from pathlib import Path
from typing import NamedTuple

ROOT = Path(__file__).parents[2]
PAGES = sorted(
    str(path.relative_to(ROOT))
    for pattern in ("*.md", "deploy/*.md", "docs/*.md", "examples/**/*.md", "skills/*/*.md")
    for path in ROOT.glob(pattern)
    if "node_modules" not in path.parts
)
"""Every page of the documentation."""


class Block(NamedTuple):
    """A fenced code block: its language, its text, and the line it starts at."""

    language: str
    text: str
    line: int


def read(name: str) -> str:
    return (ROOT / name).read_text(encoding="utf-8")


def section(text: str, heading: str) -> str:
    return text.split(f"\n## {heading}\n", 1)[1].split("\n## ", 1)[0]


def blocks(text: str) -> list[Block]:
    return [
        Block(match[1], match[2], text.count("\n", 0, match.start()) + 1)
        for match in re.finditer(r"^```(\w+)\n(.*?)^```$", text, re.MULTILINE | re.DOTALL)
    ]


def marked(text: str, name: str) -> str:
    """The text between the markers `<!-- name -->` and `<!-- /name -->`."""
    return text.split(f"<!-- {name} -->\n", 1)[1].split(f"<!-- /{name} -->", 1)[0].removesuffix("\n")


def with_marked(text: str, name: str, content: str) -> str:
    before, rest = text.split(f"<!-- {name} -->\n", 1)
    after = rest.split(f"<!-- /{name} -->", 1)[1]
    return f"{before}<!-- {name} -->\n{content}\n<!-- /{name} -->{after}"


def anchors(text: str) -> set[str]:
    headings = re.findall(r"^#+ (.+)$", text, re.MULTILINE)
    slugs = [re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-") for heading in headings]
    return {*slugs, *re.findall('<a id="(.*?)">', text)}


def links(text: str) -> list[str]:
    return re.findall(r"\]\(([^)\s]+)\)", text)
