"""Tables that fit the terminal."""

import pytest
from rich.cells import cell_len

from paymock.cli.table import Column, table_lines

ROWS = [
    Column("ID", ["pay_1", "pay_22"]),
    Column("STATUS", ["completed", "failed"]),
    Column("DUE", ["1.01 USDT", "7 ETH"], 2),
    Column("ORDER", ["order-1", "o" * 40], 1),
]


def test_without_a_width_nothing_is_omitted() -> None:
    assert table_lines(ROWS, None) == [
        "ID      STATUS     DUE        ORDER",
        "pay_1   completed  1.01 USDT  order-1",
        f"pay_22  failed     7 ETH      {'o' * 40}",
    ]


def test_the_last_column_is_truncated() -> None:
    assert table_lines(ROWS, 60)[1:] == [
        "pay_1   completed  1.01 USDT  order-1",
        f"pay_22  failed     7 ETH      {'o' * 29}…",
    ]


def test_columns_are_omitted_by_rank() -> None:
    headers = {table_lines(ROWS, width)[0] for width in range(1, 80)}
    assert {" ".join(header.split()) for header in headers} == {
        "ID STATUS DUE ORDER",
        "ID STATUS ORDER",
        "ID STATUS",
    }


@pytest.mark.parametrize("width", [17, 18, 30, 38, 39, 40, 41, 60, 79])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    columns = [*ROWS[:3], Column("ORDER", ["注文 " * 12, "a\u202eb\n" * 9], 1)]
    lines = table_lines(columns, width)
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)


@pytest.mark.parametrize("width", [17, 39, 60])
def test_a_wrapped_column_loses_no_word(width: int) -> None:
    words = ["several", "words", "that", "are", "continued", "on", "the", "next", "line"]
    lines = table_lines([Column("A", ["x" * 15]), Column("B", [" ".join(words)], 1)], width, wrapped=True)
    assert all(cell_len(line) <= width for line in lines)
    assert "".join(lines[1:]).split()[1:] == (words if width > 17 else [])


def test_columns_of_rank_0_are_never_truncated() -> None:
    assert table_lines(ROWS, 1)[1:] == ["pay_1   completed", "pay_22  failed"]


def test_wide_characters_are_aligned() -> None:
    columns = [Column("A", ["注文", "ab"]), Column("B", ["x", "y"])]
    assert table_lines(columns, None) == ["A     B", "注文  x", "ab    y"]
