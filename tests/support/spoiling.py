"""Bodies that are wrong in every place where they can be."""

from collections.abc import Iterator
from typing import Any

from tests.support.contract import Json


def spoiled(body: Json, value: str, name: str) -> Iterator[Any]:
    """Bodies that are refused: each has a field that is unknown, and maybe values that no field takes."""
    yield from (value, [value], {name: value}, {**body, name: {name: [value]}}, _spoiled(body, value, name))
    for member in body:
        for wrong in (value, [value], {name: value}):
            yield {**body, member: wrong, name: value}


def _spoiled(item: Any, value: str, name: str) -> Any:
    if isinstance(item, dict):
        return {member: _spoiled(within, value, name) for member, within in item.items()} | {name: value}
    return [_spoiled(within, value, name) for within in item] if isinstance(item, list) else value
