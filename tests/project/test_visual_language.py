"""The tokens of the pages: docs/visual-language.md has each with its values, and the styles use no others."""

import re
from pathlib import Path

from tests.support.markdown import ROOT

STYLES = ROOT / "src/paymock/web/pages/static/pages"
TOKENS = (STYLES / "paymock.css").read_text("utf-8")
DOCUMENT = (ROOT / "docs/visual-language.md").read_text("utf-8")
CODES_OF_A_QR = {"#fff"}  # light and dark are of the code, not of the page
SHADES = {"#0a0d1499"}  # behind a dialog


def declared(block: str) -> dict[str, str]:
    """The values of the tokens that a block of the style sheet declares."""
    return dict(re.findall(r"(--[a-z0-9-]+): ([^;]+);", block))


LIGHT = declared(TOKENS[: TOKENS.index("@media")])
DARK = declared(TOKENS[TOKENS.index("@media") : TOKENS.index("* {")])


def rows(name: str) -> list[list[str]]:
    """The cells of a table of the document."""
    table = re.search(f"<!-- {name} -->\n.*\n.*\n((?:.*\n)+?)<!-- /{name} -->", DOCUMENT)
    assert table
    return [[cell.strip().strip("`") for cell in row.split("|")[1:-1]] for row in table[1].splitlines()]


def test_colors_are_documented_with_their_values() -> None:
    documented = {token: (light, dark) for token, light, dark, _ in rows("color-tokens")}
    assert documented == {token: (LIGHT[token], DARK[token]) for token in DARK if token != "--shadow"}


def test_sizes_are_documented_with_their_values() -> None:
    documented = {token: size for token, size, _ in rows("size-tokens")}
    assert documented == {token: LIGHT[token] for token in LIGHT if token not in DARK}


def test_components_are_documented() -> None:
    classes = set(re.findall(r"^\| `\.([a-z]+)` \|", DOCUMENT, re.MULTILINE))
    text = "".join(path.read_text("utf-8") for path in STYLES.glob("*.css"))
    assert classes
    assert {name for name in classes if not re.search(rf"\.{name}\b", text)} == set()


def test_styles_have_no_color_of_their_own() -> None:
    for path in sorted(Path(STYLES).glob("*.css")):
        text = path.read_text("utf-8")
        if path.name == "paymock.css":
            text = text[text.index("* {") :]
        assert set(re.findall(r"#[0-9a-f]{3,8}\b", text)) <= CODES_OF_A_QR | SHADES
