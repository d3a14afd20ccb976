"""The figures of docs/reliability.md: the programs that measure them write them, so they cannot drift."""

import datetime
import re
from pathlib import Path
from typing import Literal

Name = Literal[
    "kills",
    "cuts",
    "nodes",
    "crowds",
    "mixture",
    "stop",
    "slow",
    "slow-few-files",
    "bodies",
    "pieces",
    "soak",
    "heads",
]
"""What a figure is called in the page."""

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def write(name: Name, figure: str, page: Path = PAGE) -> None:
    """Puts a figure, with the date, between the markers of its name. Raises ValueError without them."""
    text, today = page.read_text(encoding="utf-8"), datetime.datetime.now(datetime.UTC).date()
    marked = re.compile(rf"(?<=<!-- {name} -->).*?(?=<!-- /{name} -->)")
    new, count = marked.subn(lambda _: f"{figure}; {today}", text)
    if count != 1:
        raise ValueError(f"{page.name} has the markers of {name} {count} times")
    page.write_text(new, encoding="utf-8")
