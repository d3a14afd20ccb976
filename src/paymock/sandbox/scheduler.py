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

_LONG = 3
"""So many slices make a request one of those with much work."""


class FairScheduler:
    """Runs a slice of one request that takes milliseconds in each iteration of the event loop, so that what
    has come in is served in between. The owners take turns, however many requests each has. Every other slice
    is for a request that has used the fewest so far: a few milliseconds of work wait for no long work.
    """

    def __init__(self) -> None:
        self.slice_end = 0
        self._waiting: list[dict[str, deque[Callable[[], object]]]] = [{} for _ in range(_LONG + 1)]
        """By the slices that were used, and owner."""

        self._order = [*self._waiting]  # reversed after each slice

    def add(self, owner: str, begin: Callable[[], object], used: int = 0) -> None:
        """Call `begin` in a turn of `owner`; its request has `used` so many slices."""
        if not any(self._waiting):
            asyncio.get_running_loop().call_soon(self._next)
        self._waiting[min(used, _LONG)].setdefault(owner, deque()).append(begin)

    def _next(self) -> None:
        waiting = next(filter(None, self._order))
        self._order.reverse()
        owner = next(iter(waiting))
        queue = waiting.pop(owner)
        self.slice_end = monotonic_ns() + SLICE_NS
        queue.popleft()()
        if queue:
            waiting[owner] = queue  # behind the others
        if any(self._waiting):
            asyncio.get_running_loop().call_soon(self._next)


SCHEDULER: ContextVar[tuple[FairScheduler | None, str]] = ContextVar("scheduler", default=(None, ""))
"""Where, and for which owner, this request and the tasks that it starts take their turns."""

_USED: ContextVar[tuple[int, int]] = ContextVar("used", default=(0, 0))
"""The end of the last slice of this request, and how many it had used before."""


async def yield_turn() -> None:
    """Return at once within a slice, and else in the next turn: called before what takes milliseconds."""
    scheduler, owner = SCHEDULER.get()
    if scheduler and monotonic_ns() >= scheduler.slice_end:
        turn, (end, used) = asyncio.Event(), _USED.get()
        used = (
            used + 1 if end == scheduler.slice_end else 0
        )  # it has not had this slice, but come in after it
        scheduler.add(owner, turn.set, used)
        await turn.wait()
        _USED.set((scheduler.slice_end, used))


async def in_slices(items: Iterable[T]) -> list[T]:
    """Return the items, which are computed one by one."""
    (scheduler, _), found = SCHEDULER.get(), []
    for item in items:
        found.append(item)
        if scheduler and monotonic_ns() >= scheduler.slice_end:  # most often it is not
            await yield_turn()
    return found
