"""The limits of the metadata of a payment. Specification: "Limits"; the figures are in docs/decisions.md."""

import re
from typing import Any

import msgspec

from paymock.schemas.json_decoding import depth

MAX_ENTRIES = 50
MAX_KEY_CHARACTERS = 64
MAX_DEPTH = 8
MAX_BYTES = 16 * 1024
MAX_SAFE_INTEGER = 2**53 - 1
_SUSPECT = re.compile(rb"\\u0000|[0-9]{16}")
"""What the encoding of a NUL character or of an unsafe integer contains."""


def metadata_problem(metadata: dict[str, Any]) -> str | None:
    """The limit that `metadata` exceeds, or None when it is valid. Never contains a key or a value."""
    if len(metadata) > MAX_ENTRIES:
        return f"must have at most {MAX_ENTRIES} entries, not {len(metadata)}"
    for key in metadata:
        if not 1 <= len(key) <= MAX_KEY_CHARACTERS:
            return f"must have keys of 1 to {MAX_KEY_CHARACTERS} characters"
    encoded = msgspec.json.encode(metadata)
    # The two walks are expensive; the encoded form shows cheaply whether they can find anything.
    if encoded.count(b"{") + encoded.count(b"[") > MAX_DEPTH and depth(metadata) > MAX_DEPTH:
        return f"must have at most {MAX_DEPTH} levels of nesting"
    problem = _value_problem(metadata) if _SUSPECT.search(encoded) else None
    if problem is None and len(encoded) > MAX_BYTES:
        return f"must take at most {MAX_BYTES} bytes as compact JSON"
    return problem


def _value_problem(value: Any) -> str | None:
    if isinstance(value, str):
        return "must not contain the NUL character" if "\0" in value else None
    if isinstance(value, int):
        safe = abs(value) <= MAX_SAFE_INTEGER
        return None if safe else "must not contain integers beyond ±(2^53-1): use strings"
    if isinstance(value, dict):
        return next(filter(None, map(_value_problem, [*value, *value.values()])), None)
    if isinstance(value, list):
        return next(filter(None, map(_value_problem, value)), None)
    return None
