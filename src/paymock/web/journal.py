"""What the journal keeps of a request: nothing that is secret."""

from typing import Literal

from paymock.core.control_wire import JournalEntry
from paymock.core.times import to_rfc3339
from paymock.web.http import Request, Response

_CONFLICT = "idempotency_key_reused_with_different_payload"


def entry(
    request: Request, path: str, response: Response, now: int, seconds: float, *, dropped: bool
) -> JournalEntry:
    """The journal's line about a request that was answered at `now`, in milliseconds since the epoch, in so
    many seconds, or whose reply was dropped. `path` is the request's, without what is secret.
    """
    outcome: Literal["new", "replayed", "conflict"] | None = None
    if response.error == _CONFLICT:
        outcome = "conflict"
    elif response.status == 201:
        outcome = "replayed" if ("Idempotent-Replayed", "true") in response.headers else "new"
    return JournalEntry(
        at=to_rfc3339(now),
        method=request.method,
        path=path,
        status=0 if dropped else response.status,
        error=response.error,
        idempotency=outcome,
        request_id=request.id,
        duration_ms=round(seconds * 1000, 3),
    )
