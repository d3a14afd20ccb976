import asyncio

import pytest

from paymock.verify.coroutines import step, turn, until


def test_a_coroutine_goes_on_by_turns_of_its_caller_and_waits_for_what_comes() -> None:
    seen: list[object] = []

    async def wait() -> None:
        seen.append(await until(lambda: "news" in seen))
        await turn()
        seen.append(await until(bool, seconds=0.0))

    waiting = wait()
    assert [step(waiting), step(waiting), seen] == [False, False, []]
    seen.append("news")
    assert [step(waiting), seen] == [False, ["news", True]]
    assert [step(waiting), seen] == [True, ["news", True, False]]


def test_nothing_of_asyncio_works_in_it() -> None:
    with pytest.raises(RuntimeError, match="no running event loop"):
        step(asyncio.sleep(1))
