"""The types of the values in the bodies of `/v1`: amounts, addresses, times and so on, each declared once.

The type defines structure and lengths, `extra_json_schema` the other constraints that a JSON Schema can
express, and `extra["check"]` the whole check: a function that returns the problem of a value, or None. A type
with a `title` is a schema of that name in the OpenAPI documents.

Patterns use only what ECMAScript with the flag `u`, Python, PCRE, RE2, Java and Ruby understand alike, for
characters and for bytes, and match in linear time. Times have no pattern, since generated clients make them
times and not strings.
Specification: "Amounts", "Resources and their fields".
"""

import re
from collections.abc import Callable, Iterable
from typing import Annotated, Any
from urllib.parse import urlsplit

import msgspec
from msgspec import Meta

from paymock.rules.addresses import ADDRESS_PATTERN, address_problem
from paymock.rules.amounts import MAX_DIGITS, RAW_PATTERN, raw_problem
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import ENDPOINT_PREFIX, ID_PATTERNS, PAYMENT_PREFIX
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.rules.times import time_problem
from paymock.schemas.json import decode, depth, shown_name, shown_step
from paymock.text import CONTROL

MAX_ORDER_ID = 128
"""The largest number of characters in an order id."""

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""

# Limits of the metadata of a payment. Specification: "Limits"; the figures are in docs/decisions.md.
_MAX_ENTRIES = 50
_MAX_KEY_CHARACTERS = 64
_MAX_METADATA_DEPTH = 8
_MAX_METADATA_BYTES = 16 * 1024
_SUSPECT = re.compile(rb"\\u0000|[0-9]{16}")
"""What the encoding of a NUL character or of an unsafe integer contains."""

ANY_EVENT = "*"
EVENTS = (ANY_EVENT, *(f"payment.{status}" for status in PaymentStatus))

ORDER_ID_PATTERN = r"^[^\x00-\x1f\x7f]*$"
"""Control characters of ASCII: no pattern excludes U+0080 to U+009F for engines that compare bytes, too, and
in Ruby such an escape ends the program. The words do.
"""

URL_PATTERN = (
    r"^[Hh][Tt][Tt][Pp][Ss]?://(\[[0-9A-Fa-f]{0,4}:[0-9A-Fa-f]{0,4}:[0-9A-Fa-f:.]*\]|[0-9A-Za-z]"
    r"([0-9A-Za-z._-]*[0-9A-Za-z])?)(:[0-9]{1,5})?([/?][!\x22$-\[\]-~]*)?$"
)

_CONTROL = re.compile(f"[{CONTROL}]")
_URL = re.compile(URL_PATTERN.removeprefix("^").removesuffix("$"))


def doc(description: str, **more: Any) -> Meta:
    """The description of a value, and more of its Meta."""
    return Meta(description=description, **more)


def check(holds: Callable[[Any], object], problem: str) -> dict[str, Any]:
    """The `extra` of a Meta: what must hold for a value, and what is told where it does not."""
    return {"check": lambda value: None if holds(value) else problem}


def url_problem(text: str) -> str | None:
    """The reason why `text` is not the URL of a webhook endpoint, or None when it is one."""
    if "@" in text.partition("//")[2].partition("/")[0]:
        return "must not carry a user name or password"
    if "#" in text:
        return "must not carry a fragment"
    try:
        valid = _URL.fullmatch(text) is not None and urlsplit(text).port != 0
    except ValueError:  # a port above 65535, an invalid IP address
        valid = False
    return None if valid else "must be an absolute http or https URL: https://merchant.example/hooks"


def metadata_problem(
    metadata: dict[str, Any], max_entries: int = _MAX_ENTRIES, max_bytes: int = _MAX_METADATA_BYTES
) -> str | None:
    """The limit that `metadata` exceeds, or None when it is valid. Contains no value."""
    if len(metadata) > max_entries:
        return f"must have at most {max_entries} entries, not {len(metadata)}"
    for number, key in enumerate(metadata, 1):
        if not 1 <= len(key) <= _MAX_KEY_CHARACTERS:
            entry = f"entry {number} has {len(key)}: `{shown_name(key)}`"
            return f"must have keys of 1 to {_MAX_KEY_CHARACTERS} characters; {entry}"
    encoded = msgspec.json.encode(metadata)
    # The two walks are expensive; the encoded form shows cheaply whether they can find anything.
    if encoded.count(b"{") + encoded.count(b"[") > _MAX_METADATA_DEPTH:
        levels, name = max((1 + depth(value), name) for name, value in metadata.items())
        if levels > _MAX_METADATA_DEPTH:
            found = f"{levels}, in `metadata{shown_step(name)}`"
            return f"must have at most {_MAX_METADATA_DEPTH} levels of nesting, not {found}"
    refused = _value_problem(metadata) if _SUSPECT.search(encoded) else None
    if refused:
        return f"{refused[1]}; found at `metadata{refused[0]}`"
    if len(encoded) > max_bytes:
        longest = max(metadata, key=lambda name: len(msgspec.json.encode(metadata[name])))
        found = f"{len(encoded)}; the longest entry is `metadata{shown_step(longest)}`"
        return f"must take at most {max_bytes} bytes as compact JSON, not {found}"
    return None


def condition_problem(metadata: dict[str, Any]) -> str | None:
    """The limit that a condition for metadata exceeds, or None."""
    return metadata_problem(metadata, 10, 1024) if metadata else "must have at least one entry"


def metadata_text_problem(text: str) -> str | None:
    """What is wrong with the JSON of a condition for metadata, or None."""
    try:
        value = decode(text.encode())
    except (PaymockError, UnicodeError):
        value = None
    return condition_problem(value) if isinstance(value, dict) else "must be a JSON object"


def _value_problem(value: Any) -> tuple[str, str] | None:
    """The path of a member that is refused, from `value`, and its problem, or None."""
    if isinstance(value, str):
        return ("", "must not contain the NUL character") if "\0" in value else None
    if isinstance(value, int):
        safe = abs(value) <= MAX_SAFE_INTEGER
        return None if safe else ("", "must not contain integers beyond ±(2^53-1): use strings")
    if isinstance(value, dict | list):
        for step, item in value.items() if isinstance(value, dict) else enumerate(value):
            found = _value_problem(item) or (isinstance(step, str) and _value_problem(step))
            if found:
                return shown_step(step) + found[0], found[1]
    return None


def matching(pattern: str, problem: str) -> Meta:
    """The pattern of a string, which begins with ^ and ends with $, and the problem of all others."""
    matches = re.compile(pattern.removeprefix("^").removesuffix("$")).fullmatch
    return Meta(extra_json_schema={"pattern": pattern}, extra=check(matches, problem))


def enumeration(name: str, description: str, values: Iterable[str]) -> Meta:
    """The name, description and values of a closed set of strings."""
    allowed = list(values)
    return Meta(
        title=name,
        description=description,
        extra_json_schema={"enum": allowed},
        extra=check(lambda text: text in allowed, f"must be one of {', '.join(allowed)}"),
    )


OrderId = Annotated[
    str,
    doc(
        "The merchant's internal order identifier. No control characters: U+0000-001F, U+007F-009F.",
        min_length=1,
        max_length=MAX_ORDER_ID,
        examples=["order-1001"],
        extra_json_schema={"pattern": ORDER_ID_PATTERN},
        extra=check(
            lambda text: text.isprintable() or not _CONTROL.search(text),
            "must not contain control characters",
        ),
    ),
]
ChainId = Annotated[
    str, doc("Chain identifier, an `id` of `GET /v1/chains`.", min_length=1, max_length=64, examples=["bsc"])
]
AssetId = Annotated[
    str,
    doc(
        "Asset identifier, an `id` of `GET /v1/chains/{chain}/assets`.",
        min_length=1,
        max_length=64,
        examples=["USDT"],
    ),
]
Amount = Annotated[
    str,
    doc(
        "A positive amount in raw token units: an integer written as a string, never a decimal. "
        "For an asset of 18 decimals, one whole token is 1 followed by 18 zeros.",
        examples=["1000000000000000000"],
        extra_json_schema={"pattern": RAW_PATTERN, "maxLength": MAX_DIGITS},
        extra={"check": raw_problem},
    ),
]
Sum = Annotated[
    str,
    doc(
        "An amount in raw token units, possibly `0`.",
        examples=["0", "1010000000000000000"],
        extra_json_schema={"pattern": "^(0|[1-9][0-9]*)$"},
    ),
]
Address = Annotated[
    str,
    doc(
        "An EVM address: 0x and 40 hex digits, not all zero. Mixed case must satisfy EIP-55.",
        examples=["0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"],
        extra_json_schema={"pattern": ADDRESS_PATTERN},
        extra={"check": address_problem},
    ),
]
Expiry = Annotated[
    str,
    doc(
        "When the payment expires, as an RFC 3339 time with an offset, in the future. Echoed as "
        "sent. It does not drive the simulated expiry, about 30 seconds after creation.",
        examples=["2030-01-31T12:30:00Z"],
        extra_json_schema={"format": "date-time"},
        extra={"check": time_problem},
    ),
]
Timestamp = Annotated[
    str,
    doc(
        "RFC 3339, UTC, milliseconds.",
        examples=["2030-01-31T12:00:00.000Z"],
        extra_json_schema={"format": "date-time"},
    ),
]
Metadata = Annotated[
    dict[str, Any],
    Meta(
        title="Metadata",
        description="Free-form data of the merchant, returned as sent: at most 50 entries with keys of 1 to "
        "64 characters, 8 levels and 16 KiB. Integers beyond ±(2^53-1) and the NUL character are refused.",
        examples=[{"customer_id": "c_1"}],
        extra_json_schema={
            "additionalProperties": True,
            "maxProperties": _MAX_ENTRIES,
            "propertyNames": {"minLength": 1, "maxLength": _MAX_KEY_CHARACTERS},
        },
        extra={"check": metadata_problem},
    ),
]

ScenarioName = Annotated[  # without a check: a server can have more
    str,
    Meta(
        title="Scenario",
        description="What happens to a payment: a value of `X-Mock-Scenario`.",
        extra_json_schema={"enum": list(SCENARIOS)},
    ),
]
EventName = Annotated[
    str, enumeration("EventName", "An event of a payment; `*` stands for all of them.", EVENTS)
]
Events = Annotated[
    list[EventName],
    Meta(
        min_length=1,
        max_length=len(EVENTS),
        extra_json_schema={"uniqueItems": True},
        extra=check(lambda events: len(set(events)) == len(events), "must not name an event twice"),
    ),
]
EndpointUrl = Annotated[
    str,
    doc(
        "Absolute http or https URL, no credentials, no fragment. The mock never calls it.",
        max_length=2048,
        examples=["https://merchant.example/hooks"],
        extra_json_schema={"pattern": URL_PATTERN},
        extra={"check": url_problem},
    ),
]
Note = Annotated[str, Meta(max_length=256), matching(r"^[^\x00]*$", "must not contain the NUL character")]

_KEYED_EXAMPLE = "rrxs3knrz2yhanobulyh2wz6tjsg3v5c4q7oxk2e"
_DERIVED_EXAMPLE = "8c6f2ab1d94e7035c1a2f07d5b3e9a64"


def identifier(prefix: str, noun: str) -> Meta:
    """The description, example and pattern of the identifier of `noun`, which begins with `prefix`."""
    example = _KEYED_EXAMPLE if prefix in (PAYMENT_PREFIX, ENDPOINT_PREFIX) else _DERIVED_EXAMPLE
    return doc(
        f"Identifier of {noun}.",
        examples=[prefix + example],
        extra_json_schema={"pattern": ID_PATTERNS.get(prefix, f"^{prefix}[0-9a-f]{{32}}$")},
    )
