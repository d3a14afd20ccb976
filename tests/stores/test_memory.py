import gc
import tracemalloc
from collections.abc import Awaitable, Callable, Iterator
from contextlib import contextmanager, suppress

import pytest

from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.stores.base import MAX_EMPTY, SANDBOX_RECORD, LogEntries
from paymock.stores.memory import MemoryStore
from tests.stores.contract import StoreContract

STATE_BYTES = bytes([1, 2, 3])
ENTRY = b"an entry of the journal" * 8


@pytest.fixture
def store() -> MemoryStore:
    return MemoryStore({"refused": 0})


class TestMemoryStore(StoreContract):
    """The contract."""


def names(count: int) -> list[str]:
    return [sandbox_of(str(number)) for number in range(count)]


@contextmanager
def traced() -> Iterator[Callable[[], int]]:
    """A function that returns how many more bytes are allocated than at the beginning."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield lambda: tracemalloc.get_traced_memory()[0] - before
    finally:
        tracemalloc.stop()


async def request(store: MemoryStore, name: str) -> None:
    assert await store.get(name, SANDBOX_RECORD) == [None]
    await store.append(LogEntries(name, "requests", 1_000, [ENTRY]))
    await store.increment(name, "fault")


async def reset(store: MemoryStore, name: str) -> None:
    await store.add(name, ("key", ENTRY, "payment"), expected_state=None)
    await request(store, name)
    assert await store.reset(name, STATE_BYTES, expected_state=None)


async def refused_addition(store: MemoryStore, name: str) -> None:
    with suppress(PaymockError):
        await store.add(name, ("key", ENTRY, "refused"), expected_state=None)
    assert not await store.replace(name, "key", ENTRY, ENTRY, expected_state=None)


@pytest.mark.parametrize("sandboxes", [3_000, pytest.param(30_000, marks=pytest.mark.nightly)])
@pytest.mark.parametrize("use", [request, reset, refused_addition])
async def test_a_sandbox_that_holds_nothing_takes_hardly_any_memory(
    store: MemoryStore, use: Callable[[MemoryStore, str], Awaitable[None]], sandboxes: int
) -> None:
    with traced() as growth:
        for number in range(MAX_EMPTY + sandboxes):
            if number == MAX_EMPTY:  # of which something is kept
                before = growth()
            await use(store, sandbox_of(str(number)))
        gc.collect()
        assert (growth() - before) / sandboxes < 150


async def test_a_sandbox_is_forgotten_only_when_it_holds_nothing(store: MemoryStore) -> None:
    await store.add("used", ("key", ENTRY, "payment"), expected_state=None)
    for name in ("used", "empty", "recent"):
        await store.append(LogEntries(name, "requests", 10, [ENTRY]))
    for name in names(MAX_EMPTY - 1):
        await store.append(LogEntries(name, "requests", 10, [ENTRY]))
        await store.append(LogEntries("recent", "requests", 10, [ENTRY]))
    assert await store.tail("used", "requests", 1) == [ENTRY]
    assert await store.tail("recent", "requests", 1) == [ENTRY]
    assert await store.tail("empty", "requests", 1) == []
