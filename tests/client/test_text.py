"""Payments, requests and their times as text."""

import pytest

from paymock.client.text import escape_control, fault_rule_line, timeline_line


@pytest.mark.parametrize("character", ["\n", "\t", "\x1b", "\x7f", "\x9b", "\u200f", "\u2029", "\u2069"])
def test_a_control_character_is_escaped(character: str) -> None:
    assert escape_control(f"a{character}b") == f"a{character.encode('unicode_escape').decode()}b"
    assert escape_control("заказ 🎉 \N{ZERO WIDTH JOINER}") == "заказ 🎉 \N{ZERO WIDTH JOINER}"


@pytest.mark.parametrize(
    ("offset", "status", "event", "line"),
    [
        (0, "awaiting_payment", "Created", "     0 s  awaiting_payment      Created"),
        (7.25, "expired", "expired", "  7.25 s  expired"),
        (
            13.0,
            "payment_finalized",
            "Confirmations 16/16, finalized: payment_finalized",
            "    13 s  payment_finalized     Confirmations 16/16, finalized",
        ),
    ],
)
def test_a_change_is_one_line(offset: float, status: str, event: str, line: str) -> None:
    assert timeline_line(offset, status, event) == line


RULE = {
    "fault": "drop", "operation": None, "order_id": None, "payment_id": None,
    "skip": 0, "times": 1, "seen": 0, "applied": 0,
}  # fmt: skip


@pytest.mark.parametrize(
    ("changes", "line"),
    [
        ({}, "once        drop  seen 0  applied 0"),
        (
            {"times": None, "operation": "getPayment", "order_id": "a", "payment_id": "pay_b"},
            "always      drop  getPayment  order a  pay_b  seen 0  applied 0",
        ),
        ({"times": 20, "skip": 3, "seen": 5, "applied": 2}, "20 times    drop  skip 3  seen 5  applied 2"),
    ],
)
def test_a_fault_rule_is_one_line(changes: dict[str, object], line: str) -> None:
    assert fault_rule_line({**RULE, **changes}) == line
