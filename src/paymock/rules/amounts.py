"""Amounts in raw token units, written as strings of digits, and the service fee. Specification: "Amounts"."""

import re

MAX_RAW = 2**256 - 1
"""The largest amount that an EVM token can express, in raw units."""

RAW_PATTERN = "^[1-9][0-9]*$"
"""A positive raw amount, as a JSON Schema pattern."""

MAX_DIGITS = len(str(MAX_RAW))
DEFAULT_FEE_BPS = 100
MAX_FEE_BPS = 10_000
RAW = re.compile(RAW_PATTERN.strip("^$"))


def raw_problem(text: str) -> str | None:
    """The reason why `text` is not a positive raw amount that fits in 256 bits, or None when it is one."""
    if not RAW.fullmatch(text):
        return (
            "must be a positive integer in raw token units, written with the digits 0-9 only "
            '(no sign, point, exponent, space or leading zero): "1000000000000000000"'
        )
    if len(text) > MAX_DIGITS or int(text) > MAX_RAW:
        return "must fit in 256 bits"
    return None


def to_tokens(raw: int, decimals: int) -> str:
    """`raw` raw units of an asset with `decimals` decimals, in whole tokens: `1.01`."""
    whole, rest = divmod(raw, 10**decimals)
    fraction = f"{rest:0{decimals}d}".rstrip("0") if rest else ""
    return f"{whole}.{fraction}" if fraction else f"{whole}"


def fee_for(settlement: int, fee_bps: int) -> int:
    """The service fee for a settlement of `settlement` raw units, in raw units: `fee_bps` basis points of it,
    rounded up, and at least 1. Specification: "What the service does", 4; the rule is in docs/decisions.md.
    """
    return max(1, -(-settlement * fee_bps // 10_000))
