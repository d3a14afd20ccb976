"""Steps that arrive while others are under way are carried out together: one commit, or one round trip, for
all of them.
"""

import asyncio
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Generic, NamedTuple, TypeVar

S = TypeVar("S")


class Append(NamedTuple):
    """Entries for a log of a sandbox, of which the last `keep` are kept."""

    sandbox: str
    log: str
    keep: int
    entries: tuple[bytes, ...]


def joined(steps: Sequence[S | Append]) -> tuple[list[S | Append], list[int]]:
    """The steps with those that append to the same log made into one, in the place of the first; and for each
    of the given steps, where it is among them. Steps of a batch are concurrent, so they may change places.
    """
    kept: list[S | Append] = []
    places: list[int] = []
    logs: dict[tuple[str, str, int], tuple[int, list[bytes]]] = {}
    for step in steps:
        place = len(kept)
        if isinstance(step, Append):
            place, entries = logs.setdefault(step[:3], (place, []))
            entries += step.entries
        places.append(place)
        if place == len(kept):
            kept.append(step)
    for (sandbox, log, keep), (place, entries) in logs.items():
        kept[place] = Append(sandbox, log, keep, tuple(entries))
    return kept, places


class Batches(Generic[S]):
    """A queue of steps. `carry_out` is given all that have come since it was called last, and answers with
    the outcome of each, in their order; an outcome that is an exception is raised to whoever asked for it.
    Steps that are patient are carried out with the next one that is not, or after `patience` seconds.
    """

    def __init__(
        self, carry_out: Callable[[Sequence[S]], Awaitable[Sequence[Any]]], patience: float = 0.0
    ) -> None:
        self._carry_out = carry_out
        self._patience = patience
        self._waiting: list[tuple[S, asyncio.Future[Any]]] = []
        self._hurries = False  # whether one of those that wait is not patient
        self._patient: asyncio.TimerHandle | None = None
        self._running: asyncio.Task[None] | None = None

    async def do(self, step: S, *, patient: bool = False) -> Any:
        """The outcome of `step`. Raises what `carry_out` raises, or makes of this step."""
        outcome: asyncio.Future[Any] = asyncio.get_running_loop().create_future()
        self._waiting.append((step, outcome))
        self._hurries = self._hurries or not patient
        self._begin()
        return await outcome

    def _begin(self) -> None:
        if self._running is not None:
            return
        if self._hurries:
            self._running = asyncio.create_task(self._run())
        elif self._patient is None:
            self._patient = asyncio.get_running_loop().call_later(self._patience, self._hurry)

    def _hurry(self) -> None:
        self._patient = None
        self._hurries = bool(self._waiting)
        self._begin()

    async def _run(self) -> None:
        while self._hurries:
            batch, self._waiting, self._hurries = self._waiting, [], False
            try:
                outcomes = await self._carry_out([step for step, _ in batch])
            except Exception as error:  # noqa: BLE001 - raised to everybody who waits
                outcomes = [error] * len(batch)
            for (_, future), outcome in zip(batch, outcomes, strict=True):
                if future.done():
                    continue  # whoever asked has gone
                if isinstance(outcome, Exception):
                    future.set_exception(outcome)
                else:
                    future.set_result(outcome)
        self._running = None
        if self._waiting:
            self._begin()
