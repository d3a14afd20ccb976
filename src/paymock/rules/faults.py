"""Faults, to test a client's retries: what `X-Mock-Fault` can ask for."""

import re
from typing import NamedTuple

MAX_DELAY = 30_000
"""Milliseconds."""

_FAULT = re.compile(
    r"(?:status=([45][0-9]{2})|delay=([0-9]{1,5})|(drop))(?:[ \t]*;[ \t]*times=([1-9][0-9]{0,5}))?"
)


class Fault(NamedTuple):
    """A fault: an error status, or a delay in milliseconds, or a dropped reply. `times`: only the first
    tries of an operation suffer it.
    """

    status: int | None
    delay: int | None
    drop: bool
    times: int | None


def parse_fault(text: str) -> Fault | None:
    """The fault that `text` asks for, or None when it asks for none: `status=503; times=2`, `delay=1500`,
    `drop`.
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
    """Says why `text` is no fault, or None when it is one."""
    if parse_fault(text) is None:
        return (
            f"must be status=CODE (400 to 599), delay=MILLISECONDS (at most {MAX_DELAY}) or drop; "
            "each with ; times=N after it, or without"
        )
    return None
