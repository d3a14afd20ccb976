"""Engines for the tests of stores."""

from collections.abc import Iterator

import pytest

from tests.support.engines import RedisCluster, RedisEngine, redis_cluster, redis_server


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
    """An engine that holds nothing."""
    shared_engine.ask("FLUSHALL")
    return shared_engine


@pytest.fixture
def cluster(shared_cluster: RedisCluster) -> RedisCluster:
    """A cluster that holds nothing."""
    for node in shared_cluster.nodes:
        node.ask("FLUSHALL")
    return shared_cluster


@pytest.fixture
def own_engine() -> Iterator[RedisEngine]:
    """An engine that a test may end, and that keeps what is stored."""
    with redis_server("--appendonly", "yes") as engine:
        yield engine


@pytest.fixture
def own_cluster() -> Iterator[RedisCluster]:
    """A cluster of which a test may end nodes."""
    with redis_cluster(3) as cluster:
        yield cluster
