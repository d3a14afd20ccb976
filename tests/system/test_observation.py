"""`until_observed` with pollers of any pace, on real servers."""

import asyncio
from pathlib import Path

import pytest

from harness.redis_engine import redis_server
from harness.server_process import server_process
from tests.system import observation

RUNS, PARALLEL, SEED = 100, 20, 16


def missed(folder: Path, *arguments: str) -> list[str]:
    with server_process(folder, "--no-access-log", *arguments) as server:
        return asyncio.run(observation.run_all(server.port, RUNS, PARALLEL, SEED))


@pytest.mark.parametrize("workers", ["1", "2"])
def test_pollers_of_a_sqlite_server_see_every_status_in_order(tmp_path: Path, workers: str) -> None:
    assert missed(tmp_path, "--store", f"sqlite://{tmp_path}/store.db", "--workers", workers) == []


def test_pollers_of_redis_workers_see_every_status_in_order(tmp_path: Path) -> None:
    with redis_server() as engine:
        assert missed(tmp_path, "--store", engine.url, "--workers", "2") == []


def test_pollers_of_a_server_in_memory_see_every_status_in_order(tmp_path: Path) -> None:
    assert missed(tmp_path) == []
