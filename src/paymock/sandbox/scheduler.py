"""Shares the time of the event loop among API keys."""

import asyncio
from collections import deque
from collections.abc import Callable, Iterable
from contextvars import ContextVar
from typing import TypeVar

from paymock.sandbox.clock import monotonic_ns

T = TypeVar("T")

SLICE_NS = 2_000_000
"""How long a request works until all that has come in, and another key, has its turn: nanoseconds."""


class FairScheduler:
    """Runs a slice of one request that takes milliseconds in each iteration of the event loop, so that what
    has come in is served in between. The owners take turns, however many requests each has.
    """

    def __init__(self) -> None:
        self.slice_end = 0
        self._waiting: dict[str, deque[Callable[[], object]]] = {}

    def add(self, owner: str, begin: Callable[[], object]) -> None:
        """Call `begin` in the next turn of `owner`."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting.setdefault(owner, deque()).append(begin)

    def _next(self) -> None:
        owner = next(iter(self._waiting))
        queue = self._waiting.pop(owner)
        self.slice_end = monotonic_ns() + SLICE_NS
        queue.popleft()()
        if queue:
            self._waiting[owner] = queue  # behind the others
        if self._waiting:
            asyncio.get_running_loop().call_soon(self._next)


SCHEDULER: ContextVar[tuple[FairScheduler | None, str]] = ContextVar("scheduler", default=(None, ""))
"""Where, and for which owner, this request and the tasks that it starts take their turns."""


async def yield_turn() -> None:
    """Return at once within a slice, and else in the next turn: called before what takes milliseconds."""
    scheduler, owner = SCHEDULER.get()
    if scheduler and monotonic_ns() >= scheduler.slice_end:
        turn = asyncio.Event()
        scheduler.add(owner, turn.set)
        await turn.wait()


async def in_slices(items: Iterable[T]) -> list[T]:
    """Return the items, which are computed one by one."""
    found = []
    for item in items:
        found.append(item)
        await yield_turn()
    return found
