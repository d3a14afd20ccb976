"""Time limits that a busy machine does not reach."""

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

_TICK_SECONDS = 0.01


@asynccontextmanager
async def within(seconds: float) -> AsyncIterator[None]:
    """Raise TimeoutError if the block takes longer, like `asyncio.timeout`, but count only the time in which
    the event loop could run: a process that is held up is not late.
    """

    async def count() -> None:
        for _ in range(round(seconds / _TICK_SECONDS)):
            await asyncio.sleep(_TICK_SECONDS)
        limit.reschedule(asyncio.get_running_loop().time())

    async with asyncio.timeout(None) as limit:
        counter = asyncio.create_task(count())
        try:
            yield
        finally:
            counter.cancel()
