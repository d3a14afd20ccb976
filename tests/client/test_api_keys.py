"""API keys of which each serves one sandbox at a time."""

from concurrent.futures import ThreadPoolExecutor
from threading import Barrier

import pytest

from paymock.client.api_keys import ApiKeyPool


class TestApiKeyPool:
    def test_each_key_is_taken_once_until_it_is_released(self) -> None:
        pool = ApiKeyPool(["first-key", "second-key", "first-key"])
        for _ in range(2):
            keys = {pool.take(), pool.take()}
            assert keys == {"first-key", "second-key"}
            with pytest.raises(RuntimeError, match="a key serves one sandbox at a time"):
                pool.take()
            for key in keys:
                pool.release(key)
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
