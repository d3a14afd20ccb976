"""Who is woken by a change of a sandbox, and who is not."""

import asyncio
from collections.abc import Awaitable, Callable

import pytest

from paymock.stores.base import Change
from paymock.stores.memory import MemoryStore
from tests.support.stores import TellingStore
from tests.support.use_cases import SANDBOX, SOON, UseCases, line
from tests.support.virtual_time import run

ADDITIONS: dict[str, Callable[[UseCases], Awaitable[object]]] = {
    "a payment is created": lambda app: app.create("order-1002-payment"),
    "a request is noted": lambda app: app.control.journal.add(SANDBOX, line()),
    "the journal is emptied": lambda app: app.control.journal.clear(SANDBOX),
}
"""What changes no payment that anybody may wait for."""


@pytest.mark.parametrize("step", ADDITIONS)
def test_what_is_merely_added_wakes_those_who_follow_and_nobody_who_waits(step: str) -> None:
    """Of the waits of a sandbox, however many, none reads its payment again."""

    async def check() -> None:
        app = UseCases(MemoryStore())
        await app.create()
        with (
            app.sandboxes.notifier.subscribe(SANDBOX) as wait,
            app.sandboxes.notifier.subscribe(SANDBOX, additions=True) as follow,
        ):
            await ADDITIONS[step](app)
            assert (wait.is_set(), follow.is_set()) == (False, True)
            await app.control.advance(SANDBOX, {"seconds": 1})
            assert wait.is_set()

    run(check())


def test_what_another_process_merely_adds_wakes_nobody_who_waits() -> None:
    async def check() -> None:
        store = TellingStore()
        store.failures = 0
        app = UseCases(store)
        with (
            app.sandboxes.notifier.subscribe(SANDBOX) as wait,
            app.sandboxes.notifier.subscribe(SANDBOX, additions=True) as follow,
        ):
            async with asyncio.timeout(SOON):
                store.told.put_nowait(Change(SANDBOX, minor=True))
                await follow.wait()
                assert not wait.is_set()
                store.told.put_nowait(Change(SANDBOX))
                await wait.wait()

    run(check())
