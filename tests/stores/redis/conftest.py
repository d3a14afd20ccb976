import asyncio
from collections.abc import Coroutine, Iterator
from typing import Any

import pytest

from harness.redis_engine import DURABLE, RedisCluster, RedisEngine, redis_cluster, redis_server
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


@pytest.fixture(scope="session")
def shared_cluster() -> Iterator[RedisCluster]:
    with redis_cluster(3) as cluster:
        yield cluster


@pytest.fixture
def engine(shared_engine: RedisEngine) -> RedisEngine:
    shared_engine.execute("FLUSHALL")
    return shared_engine


@pytest.fixture
def cluster(shared_cluster: RedisCluster) -> RedisCluster:
    for node in shared_cluster.nodes:
        node.execute("FLUSHALL")
    return shared_cluster


@pytest.fixture
def own_engine() -> Iterator[RedisEngine]:
    """An engine with persistence, which a test may stop."""
    with redis_server(*DURABLE) as engine:
        yield engine


@pytest.fixture
def own_cluster() -> Iterator[RedisCluster]:
    with redis_cluster(3) as cluster:
        yield cluster


@pytest.fixture
def store(request: pytest.FixtureRequest) -> RedisStore:
    names = ("own_cluster", "cluster", "own_engine", "engine")
    served = next(name for name in names if name in request.fixturenames)
    return RedisStore(request.getfixturevalue(served).url)
