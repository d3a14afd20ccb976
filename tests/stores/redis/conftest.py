import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from harness.redis_engine import DURABLE, RedisEngine, redis_server
from paymock.stores.redis.store import RedisStore


@pytest.fixture(params=["asyncio", pytest.param("uvloop", marks=pytest.mark.nightly)])
def each_loop(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> None:
    """Run the test with the event loop of asyncio, then with uvloop, which the server uses if installed."""
    if request.param == "asyncio":
        return
    uvloop = pytest.importorskip("uvloop")

    def run(main: Coroutine[Any, Any, Any]) -> Any:
        with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
            return runner.run(main)

    monkeypatch.setattr(asyncio, "run", run)


@pytest.fixture(scope="session")
def shared_engine() -> Iterator[RedisEngine]:
    with redis_server() as engine:
        yield engine


@pytest.fixture
def engine(shared_engine: RedisEngine) -> RedisEngine:
    shared_engine.execute("FLUSHALL")
    return shared_engine


@pytest.fixture
def own_engine() -> Iterator[RedisEngine]:
    """An engine with persistence, which a test may stop."""
    with redis_server(*DURABLE) as engine:
        yield engine


@pytest.fixture
def store(request: pytest.FixtureRequest) -> RedisStore:
    served = "own_engine" if "own_engine" in request.fixturenames else "engine"
    return RedisStore(request.getfixturevalue(served).url)
