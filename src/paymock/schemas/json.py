"""Strict decoding of JSON request bodies, which refuses what decoders interpret differently.

There are two ways to decode a request body, which must agree: a fast one, for the bodies that encoders write,
and a strict one, for all others, which also says what is wrong.
"""

import hashlib
import json
import math
from collections import Counter
from collections.abc import Iterator
from functools import lru_cache
from itertools import zip_longest
from typing import Any, Never

import msgspec
from msgspec import UNSET

from paymock.rules.errors import PaymockError
from paymock.text import escape_control, without_secrets

encode_sorted = msgspec.json.Encoder(order="sorted").encode

MAX_DEPTH = 32
_MAX_NAME = 64
_MAX_INTEGER_DIGITS = 309  # the largest double has that many
_COMPARED_ITEMS, _ABSENT = 100, msgspec.Raw()
_FOREIGN = {b"\xef\xbb\xbf": "it begins with a byte order mark", b"\x1f\x8b": "it is compressed with gzip"}
_IRRELEVANT = bytes(set(range(256)) - set(b"[{0123456789"))
"""All bytes but digits and those that open an array or object."""


def equal(one: Any, other: Any) -> bool:
    """Whether two decoded JSON values are the same: 1 and 1.0 are, 1 and true are not."""
    if isinstance(one, dict) and isinstance(other, dict):
        return one.keys() == other.keys() and all(equal(value, other[name]) for name, value in one.items())
    if isinstance(one, list) and isinstance(other, list):
        return len(one) == len(other) and all(map(equal, one, other))
    return isinstance(one, bool) == isinstance(other, bool) and bool(one == other)


def decode(body: bytes) -> Any:
    """The value of the JSON document `body`.

    Raises PaymockError `invalid_json` for anything but one UTF-8 JSON document, and for what decoders
    interpret differently: duplicate member names, NaN, Infinity, numbers outside the range of a double, lone
    surrogates, a byte order mark, and nesting deeper than 32.
    """
    value = decode_fast(body)
    return decode_strict(body) if value is UNSET else value


def decode_fast(body: bytes) -> Any:
    """The value of `body`, or UNSET where only `decode_strict` can tell whether it is valid.

    A body that is encoded to the same bytes again, but for white space, is valid: it has no duplicate member
    names, for example. Its nesting and numbers are within the limits if its digits and brackets are few.
    """
    marks = body.translate(None, _IRRELEVANT)
    if len(marks) >= _MAX_INTEGER_DIGITS or marks.count(b"[") + marks.count(b"{") > MAX_DEPTH:
        return UNSET
    try:
        value = msgspec.json.decode(body)
        encoded = msgspec.json.encode(value)
        return value if encoded == body or encoded == msgspec.json.format(body, indent=-1) else UNSET
    except (msgspec.DecodeError, UnicodeDecodeError):
        return UNSET


def decode_strict(body: bytes) -> Any:
    """The value of `body`. Raises PaymockError `invalid_json` with the reason."""
    for start, reason in _FOREIGN.items():
        if body.startswith(start):
            _refuse(reason)
    if not body.strip(b" \t\r\n"):
        _refuse("it is empty")
    try:
        value = _DECODER.decode(body.decode("utf-8"))
        # The two walks are expensive; their conditions are cheap and hold for every body that needs them.
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


def shown_name(name: str) -> str:
    """The name of a member as a message shows it: without secrets and addresses, at most 64 characters."""
    told = without_secrets(escape_control(name.encode(errors="backslashreplace").decode()))
    return told if len(told) <= _MAX_NAME else told[: _MAX_NAME - 1] + "…"


def shown_step(step: int | str) -> str:
    """An index, or the name of a member, at the end of a dotted path."""
    return f"[{step}]" if isinstance(step, int) else f".{shown_name(step)}"


def depth(value: Any) -> int:
    """The number of nested arrays and objects in `value`: 0 for a scalar, 1 for `[]`."""
    level, levels = [value], 0
    while containers := [item for item in level if isinstance(item, (list, dict))]:
        levels += 1
        level = [
            member for item in containers for member in (item.values() if isinstance(item, dict) else item)
        ]
    return levels


def fingerprint(method: str, path: str, value: Any) -> bytes:
    """A hash of a request, 16 bytes: the order of members and white space of the body do not matter; array
    order, case and types do. Specification: "Limits", same key and same body.
    """
    hasher = _hasher(method, path).copy()
    hasher.update(encode_sorted(value))
    return hasher.digest()


def differing_paths(old: Any, new: Any, path: str = "") -> Iterator[str]:
    """Yield the dotted paths at which two JSON values differ, as fingerprints do; `body` for the whole. Of
    long arrays, whose items would take long to compare, only the own path.
    """
    if encode_sorted(old) == encode_sorted(new):
        return
    if isinstance(old, dict) and isinstance(new, dict):
        for name in old | new:
            place = f"{path}.{name}" if path else name
            yield from differing_paths(old.get(name, _ABSENT), new.get(name, _ABSENT), place)
    elif isinstance(old, list) and isinstance(new, list) and max(len(old), len(new)) <= _COMPARED_ITEMS:
        for number, pair in enumerate(zip_longest(old, new, fillvalue=_ABSENT)):
            yield from differing_paths(*pair, f"{path}[{number}]")
    else:
        yield path or "body"


@lru_cache(maxsize=256)  # copying a hasher is faster than making one
def _hasher(method: str, path: str) -> hashlib.blake2b:
    return hashlib.blake2b(f"{method} {path} ".encode(), digest_size=16)


def _refuse(reason: str) -> Never:
    raise PaymockError("invalid_json", f"The body is not one JSON document in UTF-8: {reason}.") from None


def _object(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    members = dict(pairs)
    if len(members) != len(pairs):
        [(name, _)] = Counter(name for name, _ in pairs).most_common(1)
        _refuse(f"an object has two members of the same name, `{shown_name(name)}`")
    return members


def _integer(digits: str) -> int:
    if len(digits) >= _MAX_INTEGER_DIGITS:
        _float(digits)  # refuses what is too large
    return int(digits)


def _float(digits: str) -> float:
    value = float(digits)
    if math.isinf(value):
        _refuse("a number is outside the range of a double")
    return value


_DECODER = json.JSONDecoder(
    object_pairs_hook=_object,
    parse_int=_integer,
    parse_float=_float,
    parse_constant=lambda name: _refuse(f"{name} is not a JSON number"),
)
