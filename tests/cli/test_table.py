"""Tables that fit the terminal."""

import pytest
from rich.cells import cell_len

from paymock.cli.output import Column, table_lines

ROWS = [
    Column("ID", ["pay_1", "pay_22"]),
    Column("STATUS", ["completed", "failed"]),
    Column("DUE", ["1.01 USDT", "7 ETH"], 2),
    Column("ORDER", ["order-1", "o" * 40], 1),
]


def test_columns_are_omitted_by_rank_and_the_last_one_is_truncated() -> None:
    assert table_lines(ROWS, None) == [
        "ID      STATUS     DUE        ORDER",
        "pay_1   completed  1.01 USDT  order-1",
        f"pay_22  failed     7 ETH      {'o' * 40}",
    ]
    assert table_lines(ROWS, 60)[1:] == [
        "pay_1   completed  1.01 USDT  order-1",
        f"pay_22  failed     7 ETH      {'o' * 29}…",
    ]
    assert table_lines(ROWS, 39)[2] == f"pay_22  failed     {'o' * 19}…"
    assert table_lines(ROWS, 1)[1:] == ["pay_1   completed", "pay_22  failed"]


@pytest.mark.parametrize("width", [17, 38, 41, 79])
def test_no_line_is_wider_than_the_terminal(width: int) -> None:
    columns = [*ROWS[:3], Column("ORDER", ["注文 " * 12, "a\u202eb\n" * 9], 1)]
    lines = table_lines(columns, width)
    assert all(cell_len(line) <= width and line.isprintable() for line in lines)


def test_wide_characters_are_aligned() -> None:
    columns = [Column("A", ["注文", "ab"]), Column("B", ["x", "y"])]
    assert table_lines(columns, None) == ["A     B", "注文  x", "ab    y"]
