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


@pytest.mark.parametrize(("store", "workers"), [("memory", "1"), ("SQLite", "1"), ("SQLite", "2")])
def test_pollers_see_every_status_in_order(tmp_path: Path, store: str, workers: str) -> None:
    arguments = () if store == "memory" else ("--store", f"sqlite://{tmp_path}/store.db")
    assert missed(tmp_path, *arguments, "--workers", workers) == []


def test_pollers_of_redis_workers_see_every_status_in_order(tmp_path: Path) -> None:
    with redis_server() as engine:
        assert missed(tmp_path, "--store", engine.url, "--workers", "2") == []
