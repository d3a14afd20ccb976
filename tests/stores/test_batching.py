"""Batching of concurrent steps."""

import asyncio
from collections.abc import Sequence

from paymock.stores.batching import Batcher, Read, merge_reads


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


def test_a_cancelled_caller_does_not_disturb_the_others() -> None:
    async def check() -> None:
        executor = Executor()
        batcher: Batcher[str] = Batcher(executor.execute)
        executor.resumed.clear()
        cancelled, other = (asyncio.create_task(batcher.submit(step)) for step in ("first", "second"))
        while not executor.batches:
            await asyncio.sleep(0)
        cancelled.cancel()
        executor.resumed.set()
        assert await other == "second"
        assert await batcher.submit("third") == "third"

    asyncio.run(check())


class TestMergedReads:
    def test_the_reads_of_a_source_become_one_that_reads_no_key_twice(self) -> None:
        steps = [Read("a", ("state", "1")), Read("b", ("state",)), Read("a", ("2", "state")), Read("a", ())]
        merged, split = merge_reads(steps)
        assert merged == [Read("a", ("state", "1", "2")), Read("b", ("state",))]
        assert split([[b"s", b"1", None], [b"t"]]) == [[b"s", b"1"], [b"t"], [None, b"s"], []]

    def test_other_steps_keep_their_order_and_outcomes(self) -> None:
        merged, split = merge_reads(["first", Read("a", ("1",)), "second", Read("a", ("2",))])
        assert merged == ["first", Read("a", ("1", "2")), "second"]
        assert split(["x", [b"1", b"2"], "y"]) == ["x", [b"1"], "y", [b"2"]]

    def test_a_failed_read_fails_all_that_it_was_merged_from_and_no_other(self) -> None:
        _, split = merge_reads([Read("a", ("1",)), Read("b", ("1",)), Read("a", ("2",))])
        failure = ValueError()
        assert split([failure, [b"1"]]) == [failure, [b"1"], failure]
