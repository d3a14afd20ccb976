"""Contract test suite of stores. The test module of each store subclasses it."""

import asyncio
from collections.abc import Awaitable, Callable, Coroutine
from contextlib import suppress
from functools import partial
from itertools import pairwise
from typing import Any, TypeVar

import pytest

from paymock.payments import views
from paymock.rules.errors import PaymockError
from paymock.schemas.control import MakeDeposit
from paymock.schemas.public import Payment
from paymock.stores.base import (
    MAX_COUNTERS,
    METADATA,
    SANDBOX_RECORD,
    LogEntries,
    Store,
    StoreError,
    companion_key,
)
from tests.support.use_cases import SANDBOX, UseCases, keyed

T = TypeVar("T")


def run(store: Store, check: Coroutine[Any, Any, T]) -> T:
    """The result of `check` on an initialized store, in an event loop of its own."""

    async def main() -> T:
        try:
            await initialize(store)
            return await check
        finally:
            check.close()
            await store.close()

    return asyncio.run(main())


async def initialize(store: Store) -> None:
    """Initialize the store, even where a busy machine delays the replies of an engine."""
    for _ in range(4):
        with suppress(StoreError):
            await store.initialize()
            return
    await store.initialize()


async def add(
    store: Store, sandbox: str, key: str, value: bytes, kind: str = "a", limit: int | None = None
) -> bytes | None:
    """Add a value to a sandbox that has no record of its own, and return the existing value."""
    result = await store.add(sandbox, (key, value, kind), expected_state=None, limit=limit)
    assert result.state is None
    return result.existing


async def reads_show_changes_of(other: Store, store: Store) -> None:
    """Change sandboxes through `other`, as another process does. Whatever `store` has read before, and also
    while it reads a list, its next read shows each change.
    """

    async def check(name: str, *, listing: bool) -> None:
        keys, add = (SANDBOX_RECORD, "key", "key.note"), partial(other.add, name)
        steps: list[tuple[Callable[[], Awaitable[object]], list[bytes | None]]] = [
            (lambda: add(("key", b"1", "a"), expected_state=None), [None, b"1", None]),
            (lambda: other.replace(name, "key.note", None, b"n", expected_state=None), [None, b"1", b"n"]),
            (
                lambda: other.replace(name, SANDBOX_RECORD, None, b"s", expected_state=None),
                [b"s", b"1", b"n"],
            ),
            (lambda: other.reset(name, b"t", expected_state=b"s"), [b"t", None, None]),
            (lambda: add(("key", b"2", "a"), expected_state=b"t"), [b"t", b"2", None]),
            (lambda: add(("more", b"3", "a"), expected_state=b"t", new_state=b"u"), [b"u", b"2", None]),
        ]
        assert await store.get(name, *keys) == [None] * 3
        for step, expected in steps:
            await step()
            reads = [store.get(name, *keys) for _ in range(3)]
            lists = [store.page(name, "a", limit=9)] if listing else []
            assert (await asyncio.gather(*lists, *reads))[len(lists) :] == [expected] * 3

    await check("sandbox", listing=False)
    await check("another", listing=True)
    await other.close()


class StoreContract:
    """Tests of any store. A subclass named Test… provides the fixture `store`."""

    most_counters = MAX_COUNTERS

    async def test_a_value_is_added_once(self, store: Store) -> None:
        assert await add(store, "sandbox", "key", b"one") is None
        assert await add(store, "sandbox", "key", b"two") == b"one"
        assert await add(store, "sandbox", "key", b"two", "b") == b"one"
        assert await store.get("sandbox", "key") == [b"one"]

    async def test_several_values_are_read_in_one_call(self, store: Store) -> None:
        await add(store, "sandbox", "one", b"1")
        await add(store, "sandbox", "two", b"2")
        assert await store.get("sandbox", "two", "none", "one") == [b"2", None, b"1"]
        assert await store.get("nobody", "two", "one") == [None, None]
        missing = [f"missing {number}" for number in range(100)]
        assert await store.get("sandbox", *missing, "one") == [*[None] * 100, b"1"]
        assert await store.get("nobody", *missing) == [None] * 100

    async def test_a_value_is_replaced_only_if_it_has_the_expected_old_value(self, store: Store) -> None:
        assert not await store.replace("sandbox", "key", b"old", b"new", expected_state=None)
        assert await store.replace("sandbox", "key", None, b"old", expected_state=None)
        assert not await store.replace("sandbox", "key", None, b"new", expected_state=None)
        assert await store.replace("sandbox", "key", b"old", b"new", expected_state=None)
        assert await store.get("sandbox", "key") == [b"new"]

    async def test_a_replacement_and_an_addition_are_stored_together_or_not_at_all(
        self, store: Store
    ) -> None:
        async def replace(old: bytes | None, new: bytes, added: str) -> bool:
            return await store.replace(
                "sandbox", "key", old, new, expected_state=None, addition=(added, new, "a")
            )

        assert await replace(None, b"1", "one")
        assert not await replace(None, b"2", "two")
        assert not await replace(b"1", b"2", "one")
        assert await replace(b"1", b"3", "three")
        assert await store.get("sandbox", "key", "one", "two", "three") == [b"3", b"1", None, b"3"]
        assert [value for _, value in await store.page("sandbox", "a", limit=9)] == [b"3", b"1"]
        assert await store.reset("sandbox", b"", expected_state=None)
        assert await store.count("sandbox", "a") == 0

    async def test_a_payment_takes_exactly_its_limit_of_deposits_however_many_come_at_once(
        self, store: Store, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """With a key or without one. A refused request leaves its key free."""
        monkeypatch.setattr(views, "MAX_DEPOSITS", 3)
        app = UseCases(store)
        payment, _ = await app.create(scenario="no_payment_expired")
        keys = [None, *(f"deposit-{number}" for number in range(5)), None]

        async def deposit(key: str | None) -> tuple[Payment, bool]:
            return await app.control.deposit(
                SANDBOX, payment.id, MakeDeposit(amount="1"), request=keyed(key) if key else None
            )

        outcomes = await asyncio.gather(*map(deposit, keys), return_exceptions=True)
        refused = [outcome for outcome in outcomes if isinstance(outcome, PaymockError)]
        assert [error.kind.code for error in refused] == ["capacity_exceeded"] * 4
        shown = (await app.control.payment(SANDBOX, payment.id)).payment
        assert len(shown.attempts[0].deposits or ()) == 3
        for key, outcome in zip(keys, outcomes, strict=True):
            if key and isinstance(outcome, tuple):
                assert await deposit(key) == (outcome[0], True)
            elif key:
                assert not (await app.create(key))[1]

    async def test_nothing_is_stored_if_the_state_is_not_the_expected_one(self, store: Store) -> None:
        assert await store.replace("sandbox", SANDBOX_RECORD, None, b"1", expected_state=None)
        for outdated in (None, b"0"):
            assert not await store.replace("sandbox", "key", None, b"new", expected_state=outdated)
            assert not await store.replace("sandbox", SANDBOX_RECORD, outdated, b"2", expected_state=outdated)
            added = await store.add("sandbox", ("key", b"new", "a"), expected_state=outdated)
            assert added == (b"1", None)
            assert not await store.reset("sandbox", b"2", expected_state=outdated)
        assert await store.get("sandbox", SANDBOX_RECORD, "key") == [b"1", None]
        assert await store.page("sandbox", "a", limit=9) == []
        assert await store.replace("sandbox", "key", None, b"new", expected_state=b"1")
        assert await store.replace("sandbox", SANDBOX_RECORD, b"1", b"2", expected_state=b"1")
        assert await store.get("sandbox", SANDBOX_RECORD, "key") == [b"2", b"new"]

    async def test_an_empty_sandbox_is_changed_before_or_after_an_addition(self, store: Store) -> None:
        """A creation by another process is not noticed by the state, which it leaves."""
        replace = partial(store.replace, "sandbox", SANDBOX_RECORD, if_empty=True)
        assert await replace(None, b"1", expected_state=None)
        assert await replace(b"1", b"2", expected_state=b"1")
        assert (await store.add("sandbox", ("key", b"new", "a"), expected_state=b"1")).state == b"2"
        await store.add("sandbox", ("key", b"new", "a"), expected_state=b"2")
        assert not await replace(b"1", b"3", expected_state=b"1")
        with pytest.raises(PaymockError, match="Reset the sandbox, or"):
            await replace(b"2", b"3", expected_state=b"2")
        assert await store.get("sandbox", SANDBOX_RECORD) == [b"2"]

    async def test_an_addition_replaces_the_state_in_the_same_step(self, store: Store) -> None:
        add = partial(store.add, "sandbox")
        assert await add(("one", b"1", "a"), expected_state=None, new_state=b"s") == (None, None)
        assert await add(("one", b"2", "a"), expected_state=b"s", new_state=b"t") == (b"s", b"1")
        assert await add(("two", b"2", "a"), expected_state=None, new_state=b"t") == (b"s", None)
        assert await store.get("sandbox", SANDBOX_RECORD, "one", "two") == [b"s", b"1", None]

    async def test_values_of_a_kind_are_paged_newest_first(self, store: Store) -> None:
        for number in range(5):
            await add(store, "sandbox", f"key {number}", b"%d" % number)
            await add(store, "sandbox", f"other {number}", b"x", "b")
        first = await store.page("sandbox", "a", limit=2)
        await add(store, "sandbox", "later", b"5")  # which shifts no page
        second = await store.page("sandbox", "a", limit=2, before=first[-1][0])
        third = await store.page("sandbox", "a", limit=2, before=second[-1][0])
        assert [[value for _, value in page] for page in (first, second, third)] == [
            [b"4", b"3"],
            [b"2", b"1"],
            [b"0"],
        ]
        assert await store.page("sandbox", "a", limit=2, before=third[-1][0]) == []
        assert await store.page("sandbox", "none", limit=2) == []

    async def test_values_of_a_kind_are_counted(self, store: Store) -> None:
        assert await store.count("sandbox", "a") == 0
        for key, kind in (("1", "a"), ("2", "b"), ("3", "a")):
            await add(store, "sandbox", key, b"", kind)
        await add(store, "other", "1", b"")
        await add(store, "sandbox", "3", b"again")
        assert await store.replace("sandbox", "1", b"", b"new", expected_state=None)
        assert [await store.count("sandbox", kind) for kind in "abc"] == [2, 1, 0]
        assert await store.reset("sandbox", b"reset", expected_state=None)
        assert [await store.count(name, "a") for name in ("sandbox", "other")] == [0, 1]

    async def test_a_limit_refuses_new_values_and_returns_existing_ones(self, store: Store) -> None:
        for number in range(2):
            await add(store, "sandbox", f"key {number}", b"", limit=2)
        with pytest.raises(PaymockError) as caught:
            await add(store, "sandbox", "key 2", b"", limit=2)
        assert caught.value.kind.code == "capacity_exceeded"
        assert await store.get("sandbox", "key 2") == [None]
        assert await add(store, "sandbox", "key 1", b"new", limit=2) == b""
        assert await add(store, "sandbox", "key 2", b"", "b", limit=2) is None

    async def test_a_counter_counts_its_calls(self, store: Store) -> None:
        assert [await store.increment("sandbox", "a") for _ in range(3)] == [1, 2, 3]
        assert await store.increment("sandbox", "b") == 1
        assert await store.increment("other", "a") == 1

    async def test_the_counters_of_a_sandbox_are_bounded(self, store: Store) -> None:
        names = [f"{number}" for number in range(self.most_counters + 10)]
        assert await store.increment("other", "kept") == 1
        for expected in range(1, 3):
            counts = await asyncio.gather(*(store.increment("sandbox", name) for name in names))
            assert counts.count(1) >= (len(names) if expected == 1 else 10)
            assert await store.increment("other", "kept") == expected + 1
        assert await store.increment("sandbox", "last") == 1
        assert await store.increment("sandbox", "last") == 2

    async def test_a_log_keeps_its_newest_entries(self, store: Store) -> None:
        assert await store.tail("sandbox", "log", 9) == []
        for number in range(5):
            await store.append(LogEntries("sandbox", "log", 3, [b"%d" % number]))
        assert await store.tail("sandbox", "log", 3) == [b"4", b"3", b"2"]
        assert await store.tail("sandbox", "log", 1) == [b"4"]
        assert await store.tail("other", "log", 9) == []
        await store.clear_log("sandbox", "log")
        assert await store.tail("sandbox", "log", 9) == []

    async def test_each_change_of_a_sandbox_and_of_its_log_has_another_revision(self, store: Store) -> None:
        steps: list[Callable[[], Awaitable[object]]] = [
            lambda: add(store, "s", "key", b"1"),
            lambda: add(store, "s", "other", b"2"),
            lambda: store.replace("s", "key.note", None, b"n", expected_state=None),
            lambda: store.replace("s", "key.note", b"n", b"m", expected_state=None),
            lambda: store.append(LogEntries("s", "log", 9, [b"a"])),
            lambda: store.append(LogEntries("s", "log", 9, [b"b"])),
            lambda: store.clear_log("s", "log"),
            lambda: store.replace("s", SANDBOX_RECORD, None, b"t", expected_state=None),
            lambda: store.replace("s", SANDBOX_RECORD, b"t", b"u", expected_state=b"t"),
        ]
        seen = [(await store.revision("s", "log"))[1]]
        for step in steps:
            await step()
            seen.append((await store.revision("s", "log"))[1])
            await add(store, "another", f"key-{len(seen)}", b"1")
            assert (await store.revision("s", "log"))[1] == seen[-1]
        assert all(before != after for before, after in pairwise(seen))

    async def test_a_reset_deletes_everything_of_one_sandbox_but_its_state(self, store: Store) -> None:
        for sandbox in ("one", "other"):
            await add(store, sandbox, "key", b"value")
            await store.append(LogEntries(sandbox, "log", 9, [b"entry"]))
            await store.increment(sandbox, "counter")
        assert await store.reset("one", b"fresh", expected_state=None)
        assert await store.get("one", "key", SANDBOX_RECORD) == [None, b"fresh"]
        assert await store.page("one", "a", limit=9) == []
        assert await store.tail("one", "log", 9) == []
        assert await store.increment("one", "counter") == 1
        assert await store.get("other", "key", SANDBOX_RECORD) == [b"value", None]
        assert len(await store.page("other", "a", limit=9)) == 1
        assert await store.tail("other", "log", 9) == [b"entry"]
        assert await store.increment("other", "counter") == 2

    async def test_concurrent_appends_keep_their_order(self, store: Store) -> None:
        entries = [b"%d" % number for number in range(50)]
        await asyncio.gather(*(store.append(LogEntries("sandbox", "log", 30, [entry])) for entry in entries))
        assert await store.tail("sandbox", "log", 30) == entries[:19:-1]

    def test_a_store_can_be_used_from_several_event_loops_in_turn(self, store: Store) -> None:
        async def check(existing: bytes | None) -> None:
            assert await add(store, "sandbox", "key", b"value") == existing

        run(store, check(None))
        run(store, check(b"value"))


DAY = 86_400
HOUR = 3_600


class RetentionContract(StoreContract):
    """Tests of any store with a retention of a DAY. A subclass provides `store`, and `elapse`: a function by
    which seconds of real time pass.
    """

    async def test_writes_delete_old_values_in_lists(
        self, store: Store, elapse: Callable[[float], None]
    ) -> None:
        for number in range(3):
            await add(store, "sandbox", f"key {number}", b"%d" % number)
            note = companion_key(f"key {number}")
            assert await store.replace("sandbox", note, None, b"note", expected_state=None)
        elapse(2 * HOUR)
        await add(store, "other", "key", b"value")
        elapse(HOUR)
        for number in range(3, 6):
            await add(store, "sandbox", f"key {number}", b"%d" % number)
        elapse(DAY - 3 * HOUR - 60)
        assert await add(store, "sandbox", "key 0", b"again") == b"0"
        await add(store, "sandbox", "key 6", b"6")
        before = await store.page("sandbox", "a", limit=9)
        assert [value for _, value in before] == [b"6", b"5", b"4", b"3", b"2", b"1", b"0"]
        elapse(2 * HOUR + 120)
        assert await store.page("sandbox", "a", limit=9) == before
        for number in range(7, 9):
            await add(store, "sandbox", f"key {number}", b"%d" % number)
        after = await store.page("sandbox", "a", limit=9)
        assert after[2:] == before[:4]
        assert await store.count("sandbox", "a") == len(after) == 6
        assert await store.get("sandbox", "key 0", companion_key("key 0")) == [None, None]
        assert await store.get("sandbox", "key 3", companion_key("key 2")) == [b"3", None]
        assert await store.page("sandbox", "a", limit=2, before=after[1][0]) == after[2:4]
        assert await store.page("sandbox", "a", limit=2, before=before[4][0]) == []
        assert await add(store, "sandbox", "key 0", b"new") is None

    async def test_writes_delete_sandboxes_without_changes(
        self, store: Store, elapse: Callable[[float], None]
    ) -> None:
        idle = ("values", "state", "reset", "log")
        await add(store, "values", "key", b"value")
        for name in (METADATA, "state"):
            assert await store.replace(name, SANDBOX_RECORD, None, b"state", expected_state=None)
        assert await store.reset("reset", b"state", expected_state=None)
        for name in ("reset", "log"):
            await store.append(LogEntries(name, "log", 9, [b"entry"]))
            await store.increment(name, "counter")
        await add(store, "used", "key", b"value")
        for _ in range(3):
            elapse(DAY // 2)
            [state] = await store.get("used", SANDBOX_RECORD)
            new = b"%d" % (int(state or 0) + 1)
            assert await store.replace("used", SANDBOX_RECORD, state, new, expected_state=state)
        for number in range(len(idle)):
            await add(store, "other", f"key {number}", b"value")
        assert await store.get("used", SANDBOX_RECORD) == [b"3"]
        assert await store.get(METADATA, SANDBOX_RECORD) == [b"state"]
        for name in idle:
            assert await store.get(name, SANDBOX_RECORD, "key") == [None, None]
            assert (await store.count(name, "a"), await store.tail(name, "log", 9)) == (0, [])
        assert await store.increment("log", "counter") == 1
