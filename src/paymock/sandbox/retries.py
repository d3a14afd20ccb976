"""How long a change is attempted again after others have overtaken it."""

import asyncio

from paymock.rules.errors import PaymockError

RETRY_SECONDS = 2.0


class RetryDeadline:
    """Limits the retries of one optimistic change, which other requests keep overtaking."""

    def __init__(self) -> None:
        self._deadline: float | None = None

    def check(self) -> None:
        """Raise PaymockError `store_unavailable` when RETRY_SECONDS have passed since the first call."""
        now = asyncio.get_running_loop().time()
        if self._deadline is None:
            self._deadline = now + RETRY_SECONDS
        elif now >= self._deadline:
            raise PaymockError(
                "store_unavailable",
                "Other requests kept changing the same data. Nothing was stored. Retry with the same "
                "Idempotency-Key after `Retry-After` seconds.",
            )
