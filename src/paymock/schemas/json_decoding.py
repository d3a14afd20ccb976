"""Decoding of request bodies: one JSON document in UTF-8, with none of the leniencies of common decoders."""

import hashlib
import json
import math
from functools import lru_cache
from typing import Any, Never

import msgspec

from paymock.rules.errors import PaymockError

MAX_DEPTH = 32
_MAX_INTEGER_DIGITS = 309  # the largest double has that many
_NEITHER = bytes(set(range(256)) - set(b"[{0123456789"))
"""What neither opens an array or object nor is a digit."""


def decode(body: bytes) -> Any:
    """The value that `body` holds.

    Raises PaymockError `invalid_json` for anything but one UTF-8 JSON document, and for what is read
    differently by different decoders: duplicate member names, NaN, Infinity, numbers outside the range of
    a double, lone surrogates, a byte order mark, and nesting deeper than 32.
    """
    if _may_be_read_quickly(body):
        try:
            # A body that reads back as it was written, but for white space, has none of the above.
            value = msgspec.json.decode(body)
            read = msgspec.json.encode(value)
            if read == body or read == msgspec.json.format(body, indent=-1):
                return value
        except (msgspec.DecodeError, UnicodeDecodeError):
            pass  # what exactly is wrong is found below
    try:
        value = _DECODER.decode(body.decode("utf-8"))
        # The two walks below are costly; their conditions are cheap and hold for every body that needs them.
        if body.count(b"[") + body.count(b"{") > MAX_DEPTH and depth(value) > MAX_DEPTH:
            _refuse(f"nesting is deeper than {MAX_DEPTH}")
        if b"\\u" in body:
            json.dumps(value, ensure_ascii=False).encode("utf-8")
    except json.JSONDecodeError as error:
        _refuse(f"{error.msg} (line {error.lineno}, column {error.colno})")
    except UnicodeDecodeError as error:
        _refuse(f"byte {error.start} is not UTF-8")
    except UnicodeEncodeError:
        _refuse("a \\u escape names half of a surrogate pair")
    except RecursionError:
        _refuse(f"nesting is deeper than {MAX_DEPTH}")
    return value


def _may_be_read_quickly(body: bytes) -> bool:
    """Whether neither its nesting nor a number can be beyond what is accepted."""
    marks = body.translate(None, _NEITHER)
    return len(marks) < _MAX_INTEGER_DIGITS and marks.count(b"[") + marks.count(b"{") <= MAX_DEPTH


def depth(value: Any) -> int:
    """How many arrays and objects lie around the innermost value: 0 for a scalar, 1 for `[]`."""
    level, found = [value], 0
    while containers := [item for item in level if isinstance(item, (list, dict))]:
        found += 1
        level = [
            member for item in containers for member in (item.values() if isinstance(item, dict) else item)
        ]
    return found


def fingerprint(method: str, path: str, value: Any) -> bytes:
    """16 bytes that tell one request from another: key order and white space of the body do not matter, array
    order, case and types do. Specification: "Limits", same key and same body."""
    digest = _begun(method, path).copy()
    digest.update(msgspec.json.encode(value, order="sorted"))
    return digest.digest()


@lru_cache(maxsize=256)  # copied for each fingerprint: to begin one takes longer than to end it
def _begun(method: str, path: str) -> hashlib.blake2b:
    return hashlib.blake2b(f"{method} {path} ".encode(), digest_size=16)


def _refuse(reason: str) -> Never:
    raise PaymockError("invalid_json", f"The body is not one JSON document in UTF-8: {reason}.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        _refuse("an object has two members of the same name")
    return members


def _integer(digits: str) -> int:
    if len(digits.removeprefix("-")) > _MAX_INTEGER_DIGITS:
        _refuse("a number is outside the range of a double")
    value = int(digits)
    try:
        float(value)
    except OverflowError:
        _refuse("a number is outside the range of a double")
    return value


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        _refuse("a number is outside the range of a double")
    return value


def _constant(name: str) -> Never:
    _refuse(f"{name} is not a JSON number")


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object, parse_int=_integer, parse_float=_float, parse_constant=_constant
)
