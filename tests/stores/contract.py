"""What every store promises, as one suite: a store's test module subclasses it and makes the store."""

import asyncio
from collections.abc import Coroutine
from typing import Any

import pytest

from paymock.core.errors import PaymockError
from paymock.stores.base import Store


def run(check: Coroutine[Any, Any, None]) -> None:
    asyncio.run(check)


class StoreContract:
    """Subclass it, name the class Test…, and give it a fixture `store`."""

    def test_a_value_is_added_once(self, store: Store) -> None:
        async def check() -> None:
            assert await store.add("sandbox", "key", b"one", kind="a") is None
            assert await store.add("sandbox", "key", b"two", kind="a") == b"one"
            assert await store.add("sandbox", "key", b"two", kind="b") == b"one"
            assert await store.get("sandbox", "key") == [b"one"]

        run(check())

    def test_several_values_are_read_at_once(self, store: Store) -> None:
        async def check() -> None:
            await store.add("sandbox", "one", b"1", kind="a")
            await store.add("sandbox", "two", b"2", kind="a")
            assert await store.get("sandbox", "two", "none", "one") == [b"2", None, b"1"]
            assert await store.get("nobody", "two", "one") == [None, None]

        run(check())

    def test_a_value_is_replaced_only_if_it_is_what_was_read(self, store: Store) -> None:
        async def check() -> None:
            assert not await store.replace("sandbox", "key", b"old", b"new")
            assert await store.replace("sandbox", "key", None, b"old")
            assert not await store.replace("sandbox", "key", None, b"new")
            assert await store.replace("sandbox", "key", b"old", b"new")
            assert await store.get("sandbox", "key") == [b"new"]

        run(check())

    def test_values_of_a_kind_are_paged_newest_first(self, store: Store) -> None:
        async def check() -> None:
            for number in range(5):
                await store.add("sandbox", f"key {number}", b"%d" % number, kind="a")
                await store.add("sandbox", f"other {number}", b"x", kind="b")
            first = await store.page("sandbox", "a", limit=2)
            second = await store.page("sandbox", "a", limit=2, before=first[-1][0])
            third = await store.page("sandbox", "a", limit=2, before=second[-1][0])
            assert [[value for _, value in page] for page in (first, second, third)] == [
                [b"4", b"3"],
                [b"2", b"1"],
                [b"0"],
            ]
            assert await store.page("sandbox", "a", limit=2, before=third[-1][0]) == []
            assert await store.page("sandbox", "none", limit=2) == []

        run(check())

    def test_a_page_does_not_move_when_something_is_added(self, store: Store) -> None:
        async def check() -> None:
            for number in range(4):
                await store.add("sandbox", f"key {number}", b"%d" % number, kind="a")
            [_, (before, _)] = await store.page("sandbox", "a", limit=2)
            await store.add("sandbox", "key 4", b"4", kind="a")
            page = await store.page("sandbox", "a", limit=2, before=before)
            assert [value for _, value in page] == [b"1", b"0"]

        run(check())

    def test_a_limit_is_kept_and_refuses_nothing_that_is_there(self, store: Store) -> None:
        async def check() -> None:
            for number in range(2):
                await store.add("sandbox", f"key {number}", b"", kind="a", limit=2)
            with pytest.raises(PaymockError) as caught:
                await store.add("sandbox", "key 2", b"", kind="a", limit=2)
            assert caught.value.kind.code == "capacity_exceeded"
            assert await store.get("sandbox", "key 2") == [None]
            assert await store.add("sandbox", "key 1", b"new", kind="a", limit=2) == b""
            assert await store.add("sandbox", "key 2", b"", kind="b", limit=2) is None

        run(check())

    def test_of_concurrent_additions_one_wins(self, store: Store) -> None:
        async def check() -> None:
            values = [b"%d" % number for number in range(50)]
            outcomes = await asyncio.gather(
                *(store.add("sandbox", "key", value, kind="a") for value in values)
            )
            [winner] = await store.get("sandbox", "key")
            assert outcomes.count(None) == 1
            assert {outcome for outcome in outcomes if outcome is not None} == {winner}

        run(check())

    def test_a_counter_counts_its_calls(self, store: Store) -> None:
        async def check() -> None:
            assert [await store.count("sandbox", "a") for _ in range(3)] == [1, 2, 3]
            assert await store.count("sandbox", "b") == 1
            assert await store.count("other", "a") == 1

        run(check())

    def test_a_log_keeps_its_newest_entries(self, store: Store) -> None:
        async def check() -> None:
            assert await store.tail("sandbox", "log", 9) == []
            for number in range(5):
                await store.append("sandbox", "log", b"%d" % number, keep=3)
            assert await store.tail("sandbox", "log", 9) == [b"4", b"3", b"2"]
            assert await store.tail("sandbox", "log", 1) == [b"4"]
            assert await store.tail("other", "log", 9) == []
            await store.clear_log("sandbox", "log")
            assert await store.tail("sandbox", "log", 9) == []

        run(check())

    def test_a_reset_forgets_all_of_one_sandbox_but_one_value(self, store: Store) -> None:
        async def check() -> None:
            for sandbox in ("one", "other"):
                await store.add(sandbox, "key", b"value", kind="a")
                await store.append(sandbox, "log", b"entry", keep=9)
                await store.count(sandbox, "counter")
            await store.reset("one", "state", b"fresh")
            assert await store.get("one", "key", "state") == [None, b"fresh"]
            assert await store.page("one", "a", limit=9) == []
            assert await store.tail("one", "log", 9) == []
            assert await store.count("one", "counter") == 1
            assert await store.get("other", "key", "state") == [b"value", None]
            assert len(await store.page("other", "a", limit=9)) == 1
            assert await store.tail("other", "log", 9) == [b"entry"]
            assert await store.count("other", "counter") == 2

        run(check())

    def test_it_answers(self, store: Store) -> None:
        asyncio.run(store.ping())
