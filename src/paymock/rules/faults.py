"""Faults to inject, in the format of the header `X-Mock-Fault`, to test the retries of a client."""

import re
from typing import NamedTuple

MAX_DELAY = 30_000
"""The longest delay, in milliseconds."""

_FAULT = re.compile(
    r"(?:status=([45][0-9]{2})|delay=([0-9]{1,5})|(drop))(?:[ \t]*;[ \t]*times=([1-9][0-9]{0,5}))?"
)


class Fault(NamedTuple):
    """A fault: an error status, a delay in milliseconds, or a dropped reply. `times`: how many attempts of an
    operation it is injected into; None: all.
    """

    status: int | None
    delay: int | None
    drop: bool
    times: int | None


def parse_fault(text: str) -> Fault | None:
    """The fault that `text` describes (`status=503; times=2`, `delay=1500`, `drop`), or None when it is
    invalid.
    """
    match = _FAULT.fullmatch(text)
    if match is None or (match[2] and int(match[2]) > MAX_DELAY):
        return None
    status, delay, drop, times = match.groups()
    return Fault(
        int(status) if status else None,
        int(delay) if delay else None,
        drop is not None,
        int(times) if times else None,
    )


def fault_problem(text: str) -> str | None:
    """The reason why `text` is not a fault, or None when it is one."""
    if parse_fault(text) is None:
        return (
            f"must be status=CODE (400 to 599), delay=MILLISECONDS (at most {MAX_DELAY}) or drop; "
            "each with ; times=N after it, or without"
        )
    return None
