"""API keys of which each serves one sandbox at a time."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from paymock.client.api_keys import ApiKeyPool
from tests.support.forks import child, forks, in_child


class TestApiKeyPool:
    def test_duplicates_are_one_key(self) -> None:
        pool = ApiKeyPool(["first-key", "second-key", "first-key"])
        assert {pool.take(), pool.take()} == {"first-key", "second-key"}
        with pytest.raises(RuntimeError, match="a key serves one sandbox at a time"):
            pool.take()

    def test_a_released_key_can_be_taken_again(self) -> None:
        pool = ApiKeyPool(["first-key"])
        for _ in range(2):
            pool.release(pool.take())

    def test_a_pool_may_have_no_keys(self) -> None:
        assert not ApiKeyPool([])

    def test_each_key_is_taken_by_one_thread(self) -> None:
        pool, barrier = ApiKeyPool([f"key-{number}" for number in range(4)]), Barrier(8)

        def take(_: int) -> str | None:
            barrier.wait()
            try:
                return pool.take()
            except RuntimeError:
                return None

        with ThreadPoolExecutor(8) as threads:
            taken = [key for key in threads.map(take, range(8)) if key]
        assert sorted(taken) == [f"key-{number}" for number in range(4)]

    @forks
    def test_each_key_is_taken_by_one_process(self) -> None:
        pool = ApiKeyPool(["first-key", "second-key", "third-key"])
        keys = [pool.take()]
        with child(pool.take) as first:
            keys.append(first())
            with child(pool.take) as second:
                keys.append(second())
                assert sorted(keys) == ["first-key", "second-key", "third-key"]
                with pytest.raises(RuntimeError, match="a key serves one sandbox at a time"):
                    in_child(pool.take)

    @forks
    def test_a_process_that_ends_returns_its_keys(self) -> None:
        pool = ApiKeyPool(["first-key"])
        assert [in_child(pool.take), in_child(pool.take), pool.take()] == ["first-key"] * 3

    @forks
    def test_a_child_process_does_not_release_the_keys_of_its_parent(self) -> None:
        pool = ApiKeyPool(["first-key"])
        key = pool.take()
        in_child(lambda: pool.release(key))
        with pytest.raises(RuntimeError, match="a key serves one sandbox at a time"):
            in_child(pool.take)
