"""Which steps share a commit, or a round trip."""

import asyncio
from collections.abc import Sequence

from paymock.stores.batching import Batches

LONG = 1000.0
"""Seconds, in which a test would be given up."""


class Engine:
    """What steps are carried out on: it answers with the step, and remembers what came together."""

    def __init__(self) -> None:
        self.batches: list[list[str]] = []
        self.may_go_on = asyncio.Event()
        self.may_go_on.set()

    async def carry_out(self, steps: Sequence[str]) -> list[str]:
        self.batches.append([*steps])
        await self.may_go_on.wait()
        return [*steps]


def test_what_comes_while_others_are_under_way_is_carried_out_together() -> None:
    async def check() -> None:
        engine = Engine()
        steps: Batches[str] = Batches(engine.carry_out)
        engine.may_go_on.clear()
        first = asyncio.create_task(steps.do("first"))
        while not engine.batches:
            await asyncio.sleep(0)
        others = asyncio.gather(steps.do("second"), steps.do("third"))
        engine.may_go_on.set()
        assert [await first, *await others] == ["first", "second", "third"]
        assert engine.batches == [["first"], ["second", "third"]]

    asyncio.run(check())


def test_what_is_patient_goes_with_the_next_that_is_not() -> None:
    async def check() -> None:
        engine = Engine()
        steps: Batches[str] = Batches(engine.carry_out, LONG)
        patient = [asyncio.create_task(steps.do(step, patient=True)) for step in ("first", "second")]
        await asyncio.sleep(0.01)
        assert engine.batches == []
        assert await steps.do("third") == "third"
        assert await asyncio.gather(*patient) == ["first", "second"]
        assert engine.batches == [["first", "second", "third"]]

    asyncio.run(check())


def test_what_is_patient_does_not_wait_for_ever() -> None:
    async def check() -> None:
        engine = Engine()
        steps: Batches[str] = Batches(engine.carry_out, 0.01)
        for step in ("first", "second"):
            assert await steps.do(step, patient=True) == step
        assert engine.batches == [["first"], ["second"]]

    asyncio.run(check())


def test_what_is_patient_and_comes_during_a_batch_does_not_wait_for_ever() -> None:
    async def check() -> None:
        engine = Engine()
        steps: Batches[str] = Batches(engine.carry_out, 0.01)
        engine.may_go_on.clear()
        first = asyncio.create_task(steps.do("first"))
        while not engine.batches:
            await asyncio.sleep(0)
        second = asyncio.create_task(steps.do("second", patient=True))
        await asyncio.sleep(0)
        engine.may_go_on.set()
        assert [await first, await second] == ["first", "second"]
        assert engine.batches == [["first"], ["second"]]

    asyncio.run(check())
