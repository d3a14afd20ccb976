"""`until_observed` with pollers of any pace, on real servers."""

import asyncio
from pathlib import Path

import pytest

from harness.server_process import ServerProcess, server_process, servers_on_one_port
from tests.support.servers import NEEDS_LINUX
from tests.system import observation
from tests.system.faults.restartable_server import new_store

RUNS, PARALLEL, SEED = 100, 20, 16


def missed(server: ServerProcess) -> list[str]:
    return asyncio.run(observation.run_all(server.port, RUNS, PARALLEL, SEED))


@pytest.mark.parametrize("store", ["memory", "SQLite"])
def test_pollers_see_every_status_in_order(tmp_path: Path, store: str) -> None:
    arguments = () if store == "memory" else ("--store", f"sqlite://{tmp_path}/store.db")
    with server_process(tmp_path, "--no-access-log", *arguments) as server:
        assert missed(server) == []


@NEEDS_LINUX
@pytest.mark.parametrize("store", ["SQLite", "Redis"])
def test_pollers_of_two_servers_see_every_status_in_order(tmp_path: Path, store: str) -> None:
    with (
        new_store(store, tmp_path) as url,
        servers_on_one_port(tmp_path, 2, "--no-access-log", "--store", url) as [server, _],
    ):
        assert missed(server) == []
