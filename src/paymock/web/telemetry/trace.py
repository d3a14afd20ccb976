"""The trace of a request, from its `traceparent` header. See W3C Trace Context."""

import re

from paymock.http.requests import Request

_TRACEPARENT = re.compile(
    "(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)


def trace_of(request: Request) -> dict[str, str]:
    """Return the trace id and the parent id; nothing if the header is absent, invalid or repeated."""
    try:
        match = _TRACEPARENT.fullmatch(request.header(b"traceparent") or "")
    except ValueError:
        match = None
    # Later versions may append fields; version 00 has exactly four.
    if match is None or (match[1] == "00" and match[4]):
        return {}
    return {"trace_id": match[2], "parent_id": match[3]}
