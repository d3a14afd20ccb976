"""Reads the TOML files that a server is started with."""

import re
import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

MAX_SIZE = 2**20
"""The largest file, in bytes."""

_TABLE = re.compile(r"\s*\[\[\s*([a-z]+?)s?\s*\]\]")
_LABEL = re.compile(r"""\s*(?:name|id)\s*=\s*["']([a-z0-9_-]{1,64})["']""")
_FIELD = re.compile(r"\s*([A-Za-z0-9_-]{1,64})\s*=")
_LINE = re.compile(r"at line ([0-9]+)")
_MANY_DIGITS = re.compile("[0-9_]{4300,}")
"""What Python does not convert to an integer."""


def parse_file(
    path: Path, noun: str, parse: Callable[[Mapping[str, Any]], T], invalid: Callable[[str], ValueError]
) -> T:
    """Return what `parse` makes of the TOML file at `path`, which messages call `noun`. Raises the error that
    `invalid` makes of a message of one line.
    """
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a regular file")  # a pipe could wait for ever
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
        if len(content) > MAX_SIZE:
            raise ValueError(f"it is larger than {MAX_SIZE} bytes")
        return parse(_decode(content.decode("utf-8")))
    except OSError as error:
        problem = f"cannot read the {noun} {path}: {error.strerror}"
    except RecursionError:
        problem = f"the {noun} {path} cannot be used: it is nested too deeply"
    except ValueError as error:  # of TOML, UTF-8 or `parse`
        problem = f"the {noun} {path} cannot be used: {error}"
    raise invalid(" ".join(problem.splitlines()))


def _decode(text: str) -> Mapping[str, Any]:
    """Decode TOML. Raises ValueError, which names the table and the field, and RecursionError."""
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        line = _LINE.search(str(error))
        raise ValueError(_place(text, int(line[1]) if line else text.count("\n") + 1) + str(error)) from None
    except ValueError:
        digits = _MANY_DIGITS.search(text)
        line_number = text.count("\n", 0, digits.start() if digits else 0) + 1
        raise ValueError(f"{_place(text, line_number)}too many digits (at line {line_number})") from None


def _place(text: str, line_number: int) -> str:
    """The table and the field in a line of TOML, as far as they are known: `scenario two_halves: plus: `."""
    table, count, label, line = "", 0, "", ""
    for line in text.split("\n")[:line_number]:
        if header := _TABLE.match(line):
            table, count, label = header[1], count + 1, ""
        elif not label and (named := _LABEL.match(line)):
            label = named[1]
    field = _FIELD.match(line)
    words = [f"{table} {label or count}"] if table else []
    return "".join(f"{word}: " for word in [*words, *([field[1]] if field else [])])
