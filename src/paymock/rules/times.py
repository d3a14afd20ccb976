"""Times: integers of milliseconds since the Unix epoch internally, RFC 3339 on the wire."""

import re
from calendar import monthrange, timegm
from datetime import UTC, datetime, timedelta
from functools import lru_cache

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: the latest time that RFC 3339 can express."""

_TIME = re.compile(
    r"([0-9]{4})-([0-9]{2})-([0-9]{2})[Tt]([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]{1,100}))?"
    r"(?:[Zz]|([+-])([0-9]{2}):([0-5][0-9]))"
)
_UNITS = ("year", "month", "day", "hour", "minute", "second", "hour of the offset")
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)


@lru_cache(maxsize=1024)  # a payment repeats its times, and so do payments of one moment
def to_rfc3339(at: int) -> str:
    """`at` (milliseconds since the epoch) as RFC 3339 in UTC with milliseconds:
    `2026-01-31T12:00:00.000Z`. A time after LATEST is written as LATEST.
    """
    seconds, milliseconds = divmod(min(at, LATEST), 1000)
    return f"{_format_seconds(seconds)}.{milliseconds:03d}Z"


@lru_cache(maxsize=1024)  # most times are of the last minute
def _format_seconds(seconds: int) -> str:
    return (_EPOCH + timedelta(seconds=seconds)).strftime("%Y-%m-%dT%H:%M:%S")


def parse_rfc3339(text: str) -> int | None:
    """`text` in milliseconds since the epoch, or None when it is not an RFC 3339 time with an offset.

    Stricter than `datetime.fromisoformat`, which accepts week dates, the basic format and a missing offset.
    Digits beyond the millisecond are dropped. A leap second is the first one of the next day.
    """
    return at if isinstance(at := _read(text), int) else None


def time_problem(text: str) -> str | None:
    return problem if isinstance(problem := _read(text), str) else None


@lru_cache(maxsize=64)  # a creation reads its time twice
def _read(text: str) -> int | str:
    """The milliseconds since the epoch, or the problem."""
    match = _TIME.fullmatch(text)
    if match is None:
        return "must be an RFC 3339 time with an offset: 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00"
    *texts, fraction, sign = match.group(1, 2, 3, 4, 5, 6, 9, 10, 7, 8)
    numbers = year, month, *_, second, zone_hour, zone_minute = [int(text or 0) for text in texts]
    days = monthrange(year, month)[1] if 1 <= month <= 12 else 31
    for unit, number, most in zip(_UNITS, numbers, (9999, 12, days, 23, 59, 60, 23), strict=False):
        least = int(unit in ("year", "month", "day"))
        if not least <= number <= most:
            return f"must be a time that exists: the {unit} is from {least} to {most}, not {number}"
    offset = (zone_hour * 3600 + zone_minute * 60) * (-1 if sign == "-" else 1)
    seconds = timegm(tuple(numbers[:6])) - offset
    if second == 60 and seconds % 86_400:
        return "must be a time that exists: second 60 is a leap second, which ends a day in UTC"
    at = seconds * 1000 + int((fraction or "")[:3].ljust(3, "0"))
    return at if at <= LATEST else f"must not be after {to_rfc3339(LATEST)} in UTC"
