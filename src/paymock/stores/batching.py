"""Batches of concurrent steps of a store: those that arrive while one is in progress form the next."""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S")


class Read(NamedTuple):
    """A step that returns the values under `keys` of a sandbox, or of whatever holds its values."""

    source: str
    keys: tuple[str, ...]


def merge_reads(steps: Sequence[S | Read]) -> tuple[list[S | Read], Callable[[Sequence[Any]], list[Any]]]:
    """Merge the reads of each source into one, in the place of the first, which reads no key twice. Return
    the merged steps, and what turns their outcomes into those of `steps`. The steps of a batch are
    concurrent, so their order is free.
    """
    merged: list[S | Read] = []
    indexes: list[int] = []
    reads: dict[str, tuple[int, dict[str, int]]] = {}
    for step in steps:
        index = len(merged)
        if isinstance(step, Read):
            index, positions = reads.setdefault(step.source, (index, {}))
            for key in step.keys:
                positions.setdefault(key, len(positions))
        indexes.append(index)
        if index == len(merged):
            merged.append(step)
    for source, (index, positions) in reads.items():
        merged[index] = Read(source, tuple(positions))

    def split(outcomes: Sequence[Any]) -> list[Any]:
        return [
            [outcomes[index][position] for position in map(reads[step.source][1].__getitem__, step.keys)]
            if isinstance(step, Read) and not isinstance(outcomes[index], Exception)
            else outcomes[index]
            for step, index in zip(steps, indexes, strict=True)
        ]

    return merged, split


class Batcher(Generic[S]):
    """A queue of steps. `execute` receives all that have arrived since its last call and returns their
    outcomes in the same order; an outcome that is an exception is raised to the caller of that step.
    """

    def __init__(self, execute: Callable[[Sequence[S]], Awaitable[Sequence[Any]]]) -> None:
        self._execute = execute
        self._queue: list[tuple[S, asyncio.Future[Any]]] = []
        self._task: asyncio.Task[None] | None = None

    async def submit(self, step: S) -> Any:
        """Return the outcome of `step`. Raises what `execute` raises, or returns for this step."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._queue.append((step, outcome))
        if self._task is None:
            self._task = asyncio.create_task(self._run())
        return await outcome

    async def _run(self) -> None:
        while self._queue:
            batch, self._queue = self._queue, []
            try:
                outcomes = await self._execute([step for step, _ in batch])
            except Exception as error:  # noqa: BLE001 - raised to every caller
                outcomes = [error] * len(batch)
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():
                    continue  # its caller was cancelled
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        self._task = None
