"""Virtual time for coroutines that wait for timers and for each other, and time limits for a busy machine."""

import asyncio
import inspect
import selectors
from collections.abc import AsyncIterator, Coroutine
from contextlib import asynccontextmanager
from typing import Any, TypeVar

import pytest

T = TypeVar("T")


class _SkippingSelector(selectors.DefaultSelector):
    """Counts the seconds that it should wait, and does not wait."""

    def __init__(self) -> None:
        super().__init__()
        self.skipped = 0.0

    def select(self, timeout: float | None = None) -> list[tuple[selectors.SelectorKey, int]]:
        assert timeout is not None, "everything waits, and nothing is due"
        self.skipped += max(timeout, 0)
        return super().select(0)


class VirtualTimeLoop(asyncio.SelectorEventLoop):
    """An event loop whose next timer is due as soon as there is nothing else to do: waiting takes no time,
    and a busy machine makes nothing late.
    """

    def __init__(self) -> None:
        self._waits = _SkippingSelector()
        super().__init__(self._waits)

    def time(self) -> float:
        """Seconds of virtual time."""
        return self._waits.skipped


def run(main: Coroutine[Any, Any, T]) -> T:
    """The result of a coroutine, in virtual time."""
    with asyncio.Runner(loop_factory=VirtualTimeLoop) as runner:
        return runner.run(main)


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, with its fixtures and parameters; leaves others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    names = pyfuncitem._fixtureinfo.argnames
    run(pyfuncitem.obj(**{name: pyfuncitem.funcargs[name] for name in names}))
    return True


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
