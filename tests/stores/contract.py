"""What every store promises, as one suite: a store's test module subclasses it and makes the store."""

import asyncio

import pytest

from paymock.core.errors import PaymockError
from paymock.stores.base import Store


class StoreContract:
    """Subclass it, name the class Test…, and give it a fixture `store`."""

    def test_a_value_is_added_once(self, store: Store) -> None:
        async def check() -> None:
            assert await store.add("sandbox", "key", b"one", kind="a") is None
            assert await store.add("sandbox", "key", b"two", kind="a") == b"one"
            assert await store.add("sandbox", "key", b"two", kind="b") == b"one"
            assert await store.get("sandbox", "key") == b"one"

        asyncio.run(check())

    def test_what_was_never_added_is_not_there(self, store: Store) -> None:
        async def check() -> None:
            assert await store.get("sandbox", "key") is None
            assert await store.list("sandbox", "a") == []

        asyncio.run(check())

    def test_sandboxes_are_separate(self, store: Store) -> None:
        async def check() -> None:
            await store.add("one", "key", b"one", kind="a")
            assert await store.get("other", "key") is None
            assert await store.list("other", "a") == []
            assert await store.add("other", "key", b"other", kind="a") is None
            assert await store.get("one", "key") == b"one"

        asyncio.run(check())

    def test_values_of_a_kind_are_listed_oldest_first(self, store: Store) -> None:
        async def check() -> None:
            for number in (3, 1, 2):
                await store.add("sandbox", f"key {number}", b"%d" % number, kind="a")
                await store.add("sandbox", f"other {number}", b"x", kind="b")
            assert await store.list("sandbox", "a") == [b"3", b"1", b"2"]

        asyncio.run(check())

    def test_a_limit_is_kept_and_refuses_nothing_that_is_there(self, store: Store) -> None:
        async def check() -> None:
            for number in range(2):
                await store.add("sandbox", f"key {number}", b"", kind="a", limit=2)
            with pytest.raises(PaymockError) as caught:
                await store.add("sandbox", "key 2", b"", kind="a", limit=2)
            assert caught.value.kind.code == "capacity_exceeded"
            assert await store.get("sandbox", "key 2") is None
            assert await store.add("sandbox", "key 1", b"new", kind="a", limit=2) == b""
            assert await store.add("sandbox", "key 2", b"", kind="b", limit=2) is None

        asyncio.run(check())

    def test_of_concurrent_additions_one_wins(self, store: Store) -> None:
        async def check() -> None:
            values = [b"%d" % number for number in range(50)]
            outcomes = await asyncio.gather(
                *(store.add("sandbox", "key", value, kind="a") for value in values)
            )
            winner = await store.get("sandbox", "key")
            assert outcomes.count(None) == 1
            assert {outcome for outcome in outcomes if outcome is not None} == {winner}

        asyncio.run(check())

    def test_it_answers(self, store: Store) -> None:
        asyncio.run(store.ping())
