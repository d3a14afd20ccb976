"""Reads the TOML files that a server is started with."""

import tomllib
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, TypeVar

T = TypeVar("T")

MAX_SIZE = 2**20
"""The largest file, in bytes."""


def parse_file(
    path: Path, noun: str, parse: Callable[[Mapping[str, Any]], T], invalid: Callable[[str], ValueError]
) -> T:
    """Return what `parse` makes of the TOML file at `path`, which messages call `noun`. Raises the error that
    `invalid` makes of a message of one line.
    """
    try:
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
        if len(content) > MAX_SIZE:
            raise ValueError(f"it is larger than {MAX_SIZE} bytes")
        return parse(tomllib.loads(content.decode("utf-8")))
    except OSError as error:
        problem = f"cannot read the {noun} {path}: {error.strerror}"
    except RecursionError:
        problem = f"the {noun} {path} cannot be used: it is nested too deeply"
    except ValueError as error:  # of TOML, UTF-8 or `parse`
        problem = f"the {noun} {path} cannot be used: {error}"
    raise invalid(" ".join(problem.splitlines()))
