"""Measured figures in docs/reliability.md, which the programs that measure them write."""

import datetime
import re
from pathlib import Path
from typing import Literal

Name = Literal["stop", "slow", "slow-few-files"]
"""The markers that programs fill in. The figures of tests.system.faults are taken from what it prints."""

PAGE = Path(__file__).parents[1] / "docs" / "reliability.md"


def write_figure(name: Name, figure: str, page: Path = PAGE) -> None:
    """Replace the figure between the markers of `name`, and its date. Raises ValueError without markers."""
    text, today = page.read_text(encoding="utf-8"), datetime.datetime.now(datetime.UTC).date()
    marked = re.compile(rf"(?<=<!-- {name} -->).*?(?=<!-- /{name} -->)")
    new, count = marked.subn(lambda _: f"{figure}; {today}", text)
    if count != 1:
        raise ValueError(f"{page.name} has the markers of {name} {count} times")
    page.write_text(new, encoding="utf-8")
