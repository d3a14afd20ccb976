"""Checks of the arguments of `paymock.testing`. Errors name the argument, what it is, and what it must be.

What the server checks, it checks: a string that is no amount is refused there.
"""

import math
import os
from collections.abc import Iterable
from datetime import datetime, timedelta
from typing import Any

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


def seconds(name: str, value: float | timedelta, *, minimum: float = 0) -> float:
    """A duration in seconds, `minimum` or more. Raises TypeError, ValueError."""
    if isinstance(value, timedelta):
        value = value.total_seconds()
    return number(name, value, minimum=minimum, expected="a number of seconds or a timedelta")


def number(name: str, value: float, *, minimum: float = 0, expected: str = "a number") -> float:
    """A number, `minimum` or more. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise TypeError(f"{name} must be {expected}, not {_shown(value)}")
    if not value >= minimum:  # also not a number
        raise ValueError(f"{name} must be at least {minimum:g}, not {_shown(value)}")
    try:
        return float(value)
    except OverflowError:
        return math.inf


def integer(name: str, value: int, *, minimum: int = 1) -> int:
    """An integer, `minimum` or more. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int):
        raise TypeError(f"{name} must be an integer, not {_shown(value)}")
    if value < minimum:
        raise ValueError(f"{name} must be at least {minimum}, not {_shown(value)}")
    return value


def raw_units(name: str, value: str | int) -> str:
    """An amount in raw units, as the API takes it. Raises TypeError, ValueError."""
    if isinstance(value, bool) or not isinstance(value, int | str):
        raise TypeError(f"{name} must be raw units, as an int or a string of digits, not {_shown(value)}")
    try:
        return str(value)
    except ValueError:  # Python refuses to convert numbers of thousands of digits
        raise ValueError(f"{name} must be raw units of at most 78 digits") from None


def text(name: str, value: str) -> str:
    """A string. Raises TypeError, ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {_shown(value)}")
    try:
        value.encode()
    except UnicodeEncodeError:
        raise ValueError(f"{name} must be Unicode text, not {_shown(value)}") from None
    return value


def path(name: str, value: str | os.PathLike[str]) -> str:
    """The path of a file. Raises TypeError."""
    if not isinstance(value, str | os.PathLike):
        raise TypeError(f"{name} must be a path, not {_shown(value)}")
    return os.fspath(value)


def header(name: str, value: str) -> str:
    """The value of a header. Raises TypeError, ValueError."""
    if not (text(name, value).isascii() and value.isprintable()):
        raise ValueError(f"{name} must consist of visible ASCII characters, not {_shown(value)}")
    return value


def api_key(name: str, value: str) -> str:
    """An API key, which is not shown in errors. Raises TypeError, ValueError."""
    if not isinstance(value, str):
        raise TypeError(f"{name} must be a string, not {type(value).__name__}")
    if not (value.isascii() and value.isprintable()):
        raise ValueError(f"{name} must consist of visible ASCII characters")
    return value


def api_keys(name: str, values: Iterable[str]) -> list[str]:
    """API keys. Raises TypeError, ValueError."""
    if isinstance(values, str) or not isinstance(values, Iterable):
        raise TypeError(f"{name} must be a list of strings, not {type(values).__name__}")
    return [api_key(f"{name}[{number}]", value) for number, value in enumerate(values)]


def time(name: str, value: datetime) -> str:
    """A time in RFC 3339. Raises ValueError for one without a time zone."""
    if value.utcoffset() is None:
        raise ValueError(f"{name} must have a time zone, such as `paymock.now() + timedelta(minutes=5)`")
    return value.isoformat()


def check_json(name: str, value: Any) -> None:
    """Raises TypeError or ValueError for what is not a JSON value, or contains something that is not."""
    if isinstance(value, dict):
        for key, member in value.items():
            if not isinstance(key, str):
                raise TypeError(f"the names in {name} must be strings, not {_shown(key)}")
            check_json(f"{name}.{key}", member)
    elif isinstance(value, list | tuple):
        for index, item in enumerate(value):
            check_json(f"{name}[{index}]", item)
    elif isinstance(value, float) and not math.isfinite(value):
        raise ValueError(f"{name} must be a finite number, not {value}")
    elif not isinstance(value, str | int | float | None):
        raise TypeError(
            f"{name} must be a JSON value (dict, list, str, number, bool, None), not {_shown(value)}"
        )


def _shown(value: object) -> str:
    try:
        return f"{value!r:.80}"
    except ValueError:  # see `raw_units`
        return "a number of thousands of digits"
