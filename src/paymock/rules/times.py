"""Times: integers of milliseconds since the Unix epoch internally, RFC 3339 on the wire."""

import re
from datetime import UTC, datetime, timedelta
from functools import lru_cache

TIME_PATTERN = (
    r"^[0-9]{4}-[0-9]{2}-[0-9]{2}[Tt][0-9]{2}:[0-9]{2}:[0-9]{2}(\.[0-9]{1,9})?([Zz]|[+-][0-9]{2}:[0-5][0-9])$"
)
"""RFC 3339 with an offset, as a JSON Schema pattern."""

LATEST = 253_402_300_799_999
"""The last millisecond of the year 9999: the latest time that RFC 3339 can express."""

_TIME = re.compile(TIME_PATTERN.removeprefix("^").removesuffix("$"))
_EPOCH = datetime(1970, 1, 1, tzinfo=UTC)
_MILLISECOND = timedelta(milliseconds=1)


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
    Digits beyond the millisecond are dropped. Leap seconds are refused.
    """
    if not _TIME.fullmatch(text):
        return None
    try:
        moment = datetime.fromisoformat(text.upper()).astimezone(UTC)
    except (ValueError, OverflowError):  # no such day or hour, or not in the years 1 to 9999 in UTC
        return None
    return (moment - _EPOCH) // _MILLISECOND


def time_problem(text: str) -> str | None:
    if parse_rfc3339(text) is None:
        return "must be an RFC 3339 time with an offset: 2026-01-31T12:00:00Z or 2026-01-31T12:00:00+01:00"
    return None
