"""Batching of concurrent store operations: those that arrive while a batch is in progress form the next one
and share one commit, or one round trip.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S")


class Append(NamedTuple):
    """Entries to append to a log of a sandbox, which retains the last `keep`."""

    sandbox: str
    log: str
    keep: int
    entries: tuple[bytes, ...]


def merge_appends(steps: Sequence[S | Append]) -> tuple[list[S | Append], list[int]]:
    """Merge the appends to each log into one, in the place of the first. Return the merged steps, and for
    each original step its index among them. The steps of a batch are concurrent, so their order is free.
    """
    merged: list[S | Append] = []
    indexes: list[int] = []
    logs: dict[tuple[str, str, int], tuple[int, list[bytes]]] = {}
    for step in steps:
        index = len(merged)
        if isinstance(step, Append):
            index, entries = logs.setdefault(step[:3], (index, []))
            entries += step.entries
        indexes.append(index)
        if index == len(merged):
            merged.append(step)
    for (sandbox, log, keep), (index, entries) in logs.items():
        merged[index] = Append(sandbox, log, keep, tuple(entries))
    return merged, indexes


class Batcher(Generic[S]):
    """A queue of steps. `execute` receives all that have arrived since its last call and returns their
    outcomes in the same order; an outcome that is an exception is raised to the caller of that step.
    Deferrable steps join the next batch, or form one after `max_delay` seconds.
    """

    def __init__(
        self, execute: Callable[[Sequence[S]], Awaitable[Sequence[Any]]], max_delay: float = 0.0
    ) -> None:
        self._execute = execute
        self._max_delay = max_delay
        self._queue: list[tuple[S, asyncio.Future[Any]]] = []
        self._batch: list[tuple[S, asyncio.Future[Any]]] = []
        self._due = False  # whether the queue must not wait any longer
        self._timer: asyncio.TimerHandle | None = None
        self._task: asyncio.Task[None] | None = None

    async def submit(self, step: S, *, deferrable: bool = False) -> Any:
        """Return the outcome of `step`. Raises what `execute` raises, or returns for this step."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((step, outcome))
        self._due = self._due or not deferrable
        self._schedule()
        return await outcome

    async def flush(self) -> None:
        """Return when the steps submitted so far have outcomes."""
        if self._queue:  # otherwise there is nothing to schedule, which would set a timer
            self._due = True
            self._schedule()
        outcomes = [outcome for _, outcome in (*self._batch, *self._queue)]
        if outcomes:
            await asyncio.wait(outcomes)

    def _schedule(self) -> None:
        if self._task is not None:
            return
        if self._due:
            self._task = asyncio.create_task(self._run())
        elif self._timer is None:
            self._timer = asyncio.get_running_loop().call_later(self._max_delay, self._on_timer)

    def _on_timer(self) -> None:
        self._timer = None
        self._due = bool(self._queue)
        self._schedule()

    async def _run(self) -> None:
        if self._timer is not None:  # this batch has the steps that it is for
            self._timer.cancel()
            self._timer = None
        while self._due:
            self._batch, self._queue, self._due = self._queue, [], False
            try:
                outcomes = await self._execute([step for step, _ in self._batch])
            except Exception as error:  # noqa: BLE001 - raised to every caller
                outcomes = [error] * len(self._batch)
            for (_, future), outcome in zip(self._batch, outcomes, strict=True):
                if future.done():
                    continue  # its caller was cancelled
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        self._task, self._batch = None, []
        if self._queue:
            self._schedule()
