"""The in-memory store: the contract, and what remains of sandboxes that hold nothing."""

import asyncio
import functools
import gc
import tracemalloc
from collections.abc import Callable, Coroutine, Iterator
from contextlib import contextmanager
from typing import Any

import pytest

from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.stores.base import MAX_COUNTERS, MAX_EMPTY, STATE
from paymock.stores.memory import MemoryStore
from tests.stores.contract import StoreContract


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore()


SANDBOXES = 30_000
STATE_BYTES = bytes([1, 2, 3])
ENTRY = b"an entry of the journal" * 8


def _names() -> list[str]:
    return [sandbox_of(str(number)) for number in range(SANDBOXES)]


def synchronous(test: Callable[[], Coroutine[Any, Any, None]]) -> Callable[[], None]:
    """The test as a function that pytest can call."""

    @functools.wraps(test)
    def run() -> None:
        asyncio.run(test())

    return run


@contextmanager
def growth_below(limit: int) -> Iterator[None]:
    """The block leaves fewer bytes for each of SANDBOXES."""
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        yield
        gc.collect()
        after, _ = tracemalloc.get_traced_memory()
    finally:
        tracemalloc.stop()
    assert (after - before) / SANDBOXES < limit


@synchronous
async def test_a_request_to_a_sandbox_that_holds_nothing_leaves_nothing() -> None:
    store = MemoryStore()
    with growth_below(100):
        for name in _names():
            assert await store.get(name, STATE) == [None]
            await store.append(name, "requests", ENTRY, keep=1_000)
            await store.increment(name, "fault")
    assert await store.tail(name, "requests", 10) == [ENTRY]


@synchronous
async def test_a_reset_leaves_the_own_record_only() -> None:
    store = MemoryStore()
    with growth_below(100):
        for name in _names():
            await store.add(name, "key", ENTRY, kind="payment", expected_state=None)
            await store.append(name, "requests", ENTRY, keep=1_000)
            await store.increment(name, "fault")
            assert await store.reset(name, STATE_BYTES, expected_state=None)
    for name in _names():
        assert await store.get(name, "key", STATE) == [None, STATE_BYTES]


@synchronous
async def test_the_own_record_takes_less_than_100_bytes_however_many_there_are() -> None:
    store = MemoryStore()
    names = [sandbox_of(str(number)) for number in range(60_000)]
    tracemalloc.start()
    try:
        before, _ = tracemalloc.get_traced_memory()
        for number, name in enumerate(names, 1):
            await store.reset(name, STATE_BYTES, expected_state=None)
            if number >= 10_000 and number % 5_000 == 0:
                after, _ = tracemalloc.get_traced_memory()
                assert (after - before) / number < 95
    finally:
        tracemalloc.stop()


@synchronous
async def test_own_records_are_told_apart_by_every_letter_of_the_name() -> None:
    store = MemoryStore()
    name = "abcdefghijklmn"
    others = {name[:place] + letter + name[place + 1 :] for place in range(14) for letter in "az2wxyz7"}
    others |= {name[1:], name[2:], name[:-1], f"a{name}", "w", "ww", "", "another name", "another\nname"}
    others |= {"w" * length for length in range(16)}
    others.discard(name)
    await store.reset(name, STATE_BYTES, expected_state=None)
    assert [await store.get(other, STATE) for other in others] == [[None]] * len(others)
    for number, other in enumerate(others):
        await store.reset(other, b"%d" % number, expected_state=None)
    assert [await store.get(other, STATE) for other in others] == [[b"%d" % n] for n in range(len(others))]
    assert await store.get(name, STATE) == [STATE_BYTES]


@synchronous
async def test_a_refused_addition_leaves_nothing() -> None:
    store = MemoryStore({"payment": 0})
    with growth_below(100):
        for name in _names():
            with pytest.raises(PaymockError, match="limit"):
                await store.add(name, "key", ENTRY, kind="payment", expected_state=None)
            assert not await store.replace(name, "key", ENTRY, ENTRY, expected_state=None)


@synchronous
async def test_a_sandbox_is_forgotten_only_when_it_holds_nothing() -> None:
    store = MemoryStore()
    await store.add("used", "key", ENTRY, kind="payment", expected_state=None)
    for name in ("used", "empty", "recent"):
        await store.append(name, "requests", ENTRY, keep=10)
    for name in _names()[: MAX_EMPTY - 1]:
        await store.append(name, "requests", ENTRY, keep=10)
        await store.append("recent", "requests", ENTRY, keep=10)
    assert await store.tail("used", "requests", 1) == [ENTRY]
    assert await store.tail("recent", "requests", 1) == [ENTRY]
    assert await store.tail("empty", "requests", 1) == []


@synchronous
async def test_the_counters_of_a_sandbox_are_bounded() -> None:
    store = MemoryStore()
    for number in range(MAX_COUNTERS + 1):
        assert await store.increment("sandbox", f"{number}") == 1
    assert await store.increment("sandbox", "1") == 2
    assert await store.increment("sandbox", "0") == 1
