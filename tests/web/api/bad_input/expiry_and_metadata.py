"""Times of expiry, and metadata."""

from typing import Any

from tests.web.api.bad_input.building import CHECKSUMMED, KIB, accepted_values, unacceptable_values

EXPIRES_AT = [
    *unacceptable_values(
        "expires_at",
        {
            "empty": "",
            "space": " ",
            "past": "2020-01-01T00:00:00Z",
            "epoch": "1970-01-01T00:00:00Z",
            "now": "2030-01-31T12:00:00Z",
            "now, at another offset": "2030-01-31T17:30:00+05:30",
            "a second ago": "2030-01-31T11:59:59Z",
            "a millisecond ago": "2030-01-31T11:59:59.999Z",
            "an hour ago, by its offset": "2030-01-31T13:00:00+02:00",
            "date only": "2030-01-31",
            "time only": "12:30:00Z",
            "no offset": "2030-01-31T12:30:00",
            "no offset, with a fraction": "2030-01-31T12:30:00.000",
            "space for T": "2030-01-31 12:30:00Z",
            "underscore for T": "2030-01-31_12:30:00Z",
            "no T": "2030-01-3112:30:00Z",
            "no seconds": "2030-01-31T12:30Z",
            "no minutes": "2030-01-31T12Z",
            "basic format": "20300131T123000Z",
            "week date": "2030-W06-4T12:30:00Z",
            "ordinal date": "2030-041T12:30:00Z",
            "comma for the point": "2030-01-31T12:30:00,5Z",
            "point without digits": "2030-01-31T12:30:00.Z",
            "month 00": "2030-00-10T12:30:00Z",
            "month 13": "2030-13-01T12:30:00Z",
            "day 00": "2031-01-00T12:30:00Z",
            "day 32": "2031-01-32T12:30:00Z",
            "February 30": "2031-02-30T12:30:00Z",
            "February 29 of no leap year": "2031-02-29T12:30:00Z",
            "February 29, 2100": "2100-02-29T12:30:00Z",
            "April 31": "2031-04-31T12:30:00Z",
            "hour 24": "2030-01-31T24:00:00Z",
            "hour 25": "2030-01-31T25:00:00Z",
            "minute 60": "2030-01-31T12:60:00Z",
            "second 60": "2030-06-30T23:59:60Z",
            "second 61": "2030-06-30T23:59:61Z",
            "offset +24:00": "2031-01-31T12:30:00+24:00",
            "offset -24:00": "2031-01-31T12:30:00-24:00",
            "offset +99:99": "2031-01-31T12:30:00+99:99",
            "offset of 60 minutes": "2031-01-31T12:30:00+05:60",
            "offset of -99 minutes": "2031-01-31T12:30:00-01:99",
            "offset without a colon": "2031-01-31T12:30:00+0530",
            "offset without minutes": "2031-01-31T12:30:00+05",
            "offset with seconds": "2031-01-31T12:30:00+05:30:15",
            "offset with one digit": "2031-01-31T12:30:00+5:30",
            "offset and Z": "2031-01-31T12:30:00+00:00Z",
            "Z twice": "2031-01-31T12:30:00ZZ",
            "minus sign of typographers": "2031-01-31T12:30:00\u221205:00",
            "UTC": "2031-01-31T12:30:00 UTC",
            "space before Z": "2031-01-31T12:30:00 Z",
            "military zone": "2031-01-31T12:30:00A",
            "named zone": "2031-01-31T12:30:00+01:00[Europe/Berlin]",
            "month of one digit": "2031-1-31T12:30:00Z",
            "hour of one digit": "2031-01-31T1:30:00Z",
            "year of two digits": "31-01-31T12:30:00Z",
            "year of five digits": "10000-01-01T00:00:00Z",
            "year with a sign": "+2031-01-31T12:30:00Z",
            "negative year": "-2031-01-31T12:30:00Z",
            "year 0000": "0000-01-01T00:00:00Z",
            "before year 1 in UTC": "0001-01-01T00:00:00+14:00",
            "after year 9999 in UTC": "9999-12-31T23:59:59-14:00",
            "leading space": " 2031-01-31T12:30:00Z",
            "trailing space": "2031-01-31T12:30:00Z ",
            "trailing line feed": "2031-01-31T12:30:00Z\n",
            "trailing NUL": "2031-01-31T12:30:00Z\0",
            "full-width digits": "２０３１-01-31T12:30:00Z",
            "Arabic-Indic digits": "٢٠٣١-01-31T12:30:00Z",
            "slashes": "2031/01/31T12:30:00Z",
            "American date": "01/31/2031",
            "RFC 1123": "Fri, 31 Jan 2031 12:30:00 GMT",
            "asctime": "Fri Jan 31 12:30:00 2031",
            "seconds since the epoch": "1927713000",
            "milliseconds since the epoch": "1927713000000",
            "duration": "PT30M",
            "interval": "2031-01-31T12:30:00Z/2031-01-31T13:30:00Z",
            "now in words": "now",
            "tomorrow": "tomorrow",
            "never": "never",
            "null in words": "null",
            "10,000 characters": "2031-01-31T12:30:00." + "0" * 10_000 + "Z",
        },
    ),
    *accepted_values(
        "expires_at",
        {
            "in half an hour": "2030-01-31T12:30:00Z",
            "in a second": "2030-01-31T12:00:01Z",
            "in a millisecond": "2030-01-31T12:00:00.001Z",
            "milliseconds": "2030-01-31T12:30:00.000Z",
            "one digit of a fraction": "2030-01-31T12:30:00.5Z",
            "microseconds": "2030-01-31T12:30:00.123456Z",
            "nanoseconds": "2030-01-31T12:30:00.123456789Z",
            "small t and z": "2030-01-31t12:30:00z",
            "offset +00:00": "2030-01-31T12:30:00+00:00",
            "offset -00:00": "2030-01-31T12:30:00-00:00",
            "offset +05:30": "2030-01-31T18:00:00+05:30",
            "offset +05:45": "2030-01-31T18:15:00+05:45",
            "offset -12:00": "2030-01-31T00:30:00-12:00",
            "offset +14:00": "2030-02-01T02:30:00+14:00",
            "offset +23:59": "2030-02-01T12:30:00+23:59",
            "future by its offset": "2030-01-31T11:30:00-01:00",
            "leap day": "2032-02-29T00:00:00Z",
            "midnight": "2030-02-01T00:00:00Z",
            "end of year 9999": "9999-12-31T23:59:59Z",
        },
    ),
]


def _deep(levels: int, *, arrays: bool = False) -> Any:
    """Metadata of so many levels."""
    value: Any = "leaf"
    for _ in range(levels - 1):
        value = [value] if arrays else {"a": value}
    return {"a": value}


def _metadata_of(size: int, character: str = "x") -> Any:
    """Metadata that takes `size` bytes as compact JSON."""
    room = size - len('{"k":""}')
    width = len(character.encode())
    return {"k": character * (room // width) + "x" * (room % width)}


def _entries(count: int) -> Any:
    return {f"key-{number}": f"value-{number}" for number in range(count)}


MAX_SAFE = 2**53 - 1

METADATA = [
    *unacceptable_values(
        "metadata",
        {
            "51 entries": _entries(51),
            "1,000 entries": _entries(1000),
            "empty key": {"": "value-1"},
            "key of 65 characters": {"k" * 65: "value-1"},
            "key of 65 emoji": {"💸" * 65: "value-1"},
            "key of 10,000 characters": {"k" * 10_000: "value-1"},
            "9 levels of objects": _deep(9),
            "9 levels of arrays": _deep(9, arrays=True),
            "9 levels at the end": {"a": "value-1", "b": [[], _deep(7)]},
            "16 KiB and a byte": _metadata_of(16 * KIB + 1),
            "16 KiB and a byte, beyond ASCII": _metadata_of(16 * KIB + 1, "é"),
            "60,000 bytes": _metadata_of(60_000),
            "2^53": {"k": 2**53},
            "-2^53": {"k": -(2**53)},
            "2^64": {"k": 2**64},
            "10^308": {"k": 10**308},
            "2^53 in an object": {"k": {"n": 2**53}},
            "2^53 in an array": {"k": [1, [2**53]]},
            "NUL in a value": {"k": "value-1\0"},
            "NUL in a key": {"key-1\0": "value-1"},
            "NUL only": {"k": "\0"},
            "NUL in an object": {"k": {"n": "value-1\0"}},
            "NUL in a key of an object": {"k": {"key-1\0": "value-1"}},
            "NUL in an array": {"k": ["value-0", ["value-1\0"]]},
            "address with NUL": {"wallet": CHECKSUMMED + "\0"},
        },
    ),
    *accepted_values(
        "metadata",
        {
            "empty": {},
            "50 entries": _entries(50),
            "key of 1 character": {"k": "v"},
            "key of 64 characters": {"k" * 64: "v"},
            "key of 64 emoji": {"💸" * 64: "v"},
            "8 levels of objects": _deep(8),
            "8 levels of arrays": _deep(8, arrays=True),
            "16 KiB": _metadata_of(16 * KIB),
            "16 KiB, beyond ASCII": _metadata_of(16 * KIB, "é"),
            "2^53-1": {"k": MAX_SAFE},
            "-(2^53-1)": {"k": -MAX_SAFE},
            "null": {"k": None},
            "true and false": {"a": True, "b": False},
            "zero": {"k": 0},
            "fractions": {"a": 0.1, "b": -2.5e-8, "c": 1e300},
            "whole number with a point": {"k": 1.0},
            "empty string": {"k": ""},
            "empty array and object": {"a": [], "b": {}},
            "nested": {"a": {"b": [1, 2.5, True, None, {"c": []}]}},
            "key order": {"b": 1, "a": 2, "c": 3},
            "markup": {"<b>": "<script>alert(1)</script>"},
            "template": {"k": "{{7*7}} ${7*7} %s %(k)s {0}"},
            "prototype": {"__proto__": {"admin": True}, "constructor": {"prototype": {}}},
            "control characters": {"k": "a\tb\nc\x1b\x7f\x85"},
            "right to left": {"k": "\u202eמטא"},
            "combining characters": {"é": "e\u0301", "e\u0301": "é"},
            "keys with dots and brackets": {"a.b": 1, "a[0]": 2, "$ref": 3},
            "key of a space": {" ": "v"},
            "number as a string": {"k": str(2**53)},
            "fields of the payment": {"id": "x", "status": "completed", "receive": {"amount": "0"}},
        },
    ),
]
