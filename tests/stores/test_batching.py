"""Batching of concurrent steps."""

import asyncio
from collections.abc import Sequence

from paymock.stores.batching import Batcher

NEVER_SECONDS = 1000.0


class Executor:
    """Returns each step as its outcome, and records the batches."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.resumed = asyncio.Event()
        self.resumed.set()

    async def execute(self, steps: Sequence[str]) -> list[str]:
        self.batches.append([*steps])
        await self.resumed.wait()
        return [*steps]


def test_steps_that_arrive_during_a_batch_form_the_next_one() -> None:
    async def check() -> None:
        executor = Executor()
        batcher: Batcher[str] = Batcher(executor.execute)
        executor.resumed.clear()
        first = asyncio.create_task(batcher.submit("first"))
        while not executor.batches:
            await asyncio.sleep(0)
        others = asyncio.gather(batcher.submit("second"), batcher.submit("third"))
        executor.resumed.set()
        assert [await first, *await others] == ["first", "second", "third"]
        assert executor.batches == [["first"], ["second", "third"]]

    asyncio.run(check())


def test_deferrable_steps_join_the_next_batch() -> None:
    async def check() -> None:
        executor = Executor()
        batcher: Batcher[str] = Batcher(executor.execute, NEVER_SECONDS)
        deferred = [
            asyncio.create_task(batcher.submit(step, deferrable=True)) for step in ("first", "second")
        ]
        for _ in range(10):
            await asyncio.sleep(0)
        assert executor.batches == []
        assert await batcher.submit("third") == "third"
        assert await asyncio.gather(*deferred) == ["first", "second"]
        assert executor.batches == [["first", "second", "third"]]

    asyncio.run(check())


def test_deferrable_steps_are_executed_after_the_maximum_delay() -> None:
    async def check() -> None:
        executor = Executor()
        batcher: Batcher[str] = Batcher(executor.execute, 0.01)
        for step in ("first", "second"):
            assert await batcher.submit(step, deferrable=True) == step
        assert executor.batches == [["first"], ["second"]]

    asyncio.run(check())


def test_a_deferrable_step_that_arrives_during_a_batch_is_executed_after_the_maximum_delay() -> None:
    async def check() -> None:
        executor = Executor()
        batcher: Batcher[str] = Batcher(executor.execute, 0.01)
        executor.resumed.clear()
        first = asyncio.create_task(batcher.submit("first"))
        while not executor.batches:
            await asyncio.sleep(0)
        second = asyncio.create_task(batcher.submit("second", deferrable=True))
        await asyncio.sleep(0)
        executor.resumed.set()
        assert [await first, await second] == ["first", "second"]
        assert executor.batches == [["first"], ["second"]]

    asyncio.run(check())


def test_a_flush_makes_deferrable_steps_due_and_waits_for_them() -> None:
    async def check() -> None:
        executor = Executor()
        batcher: Batcher[str] = Batcher(executor.execute, NEVER_SECONDS)
        step = asyncio.create_task(batcher.submit("step", deferrable=True))
        await asyncio.sleep(0)
        await batcher.flush()
        assert executor.batches == [["step"]]
        assert await step == "step"

    asyncio.run(check())


def test_a_flush_without_steps_leaves_nothing_to_the_event_loop() -> None:
    """A start flushes in an event loop of its own; a timer that ended with it would never fire again."""
    executor = Executor()
    batcher: Batcher[str] = Batcher(executor.execute, 0.0)
    asyncio.run(batcher.flush())
    assert asyncio.run(batcher.submit("step", deferrable=True)) == "step"


def test_a_deferrable_step_in_the_batch_of_another_leaves_nothing_to_the_event_loop() -> None:
    executor = Executor()
    batcher: Batcher[str] = Batcher(executor.execute, 0.05)

    async def both() -> None:
        await asyncio.gather(batcher.submit("first", deferrable=True), batcher.submit("second"))

    asyncio.run(both())
    assert asyncio.run(batcher.submit("third", deferrable=True)) == "third"
