"""Tables that fit the terminal."""

import shutil
import sys
from collections.abc import Sequence
from textwrap import wrap
from typing import NamedTuple

from paymock.cli.output import printable

_GAP = "  "
_MIN_LAST_WIDTH = 12
_GOOD_LAST_WIDTH = 20
"""Other columns are omitted for this width of the last one."""


class Column(NamedTuple):
    """A column of a table. On a narrow terminal, the column of the highest rank is omitted first. One of
    rank 0 is always shown.
    """

    title: str
    cells: Sequence[str]
    rank: int = 0


def terminal_width() -> int | None:
    """The columns of the terminal; None when standard output is not a terminal."""
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(columns: Sequence[Column], width: int | None, *, wrapped: bool = False) -> list[str]:
    """A header and a line for each row, at most `width` cells wide, unless the columns of rank 0 are wider.

    What does not fit into the last column is truncated, or continued on further lines if `wrapped`, for text
    in English. Without `width`, nothing is omitted.
    """
    from rich.cells import cell_len  # imported here, since rich takes long to import

    columns = [column._replace(cells=[printable(cell) for cell in column.cells]) for column in columns]
    while True:
        *fixed, last = columns
        widths = [max(map(cell_len, (column.title, *column.cells))) for column in columns]
        if width is None:
            last_width = widths[-1]
            break
        last_width = min(widths[-1], width - sum(widths[:-1]) - len(_GAP) * len(fixed))
        omitted = max(columns, key=lambda column: column.rank)
        wanted = _MIN_LAST_WIDTH if omitted is last else _GOOD_LAST_WIDTH
        if last_width >= min(widths[-1], wanted) or not omitted.rank:
            break
        columns.remove(omitted)

    lines = []
    for cells in zip(*((column.title, *column.cells) for column in columns), strict=True):
        line = ""
        for cell, cell_width in zip(cells[:-1], widths, strict=False):
            line += cell + " " * (cell_width - cell_len(cell)) + _GAP
        text = cells[-1]
        parts = (
            (wrap(text, last_width) if wrapped else [_truncated(text, last_width)]) if last.rank else [text]
        )
        lines += [f"{line}{parts[0]}".rstrip(), *(" " * cell_len(line) + part for part in parts[1:])]
    return lines


def _truncated(text: str, width: int) -> str:
    """The text, or its beginning and an ellipsis."""
    from rich.cells import cell_len, set_cell_size

    if cell_len(text) <= width:
        return text
    ellipsis = "…" if printable("…") == "…" else "~"
    return set_cell_size(text, width - 1).rstrip() + ellipsis
