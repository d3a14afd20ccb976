"""Short forms of `python -m tests.system.faults`.

Violations of time limits, which a busy machine can cause, are judged by the long form alone.
"""

from collections.abc import Iterable
from pathlib import Path
from typing import Any

import pytest

from tests.system.faults import random_faults
from tests.system.faults.concurrent_creations import STORES, create_concurrently
from tests.system.faults.connection_cuts import CUTS, cut_connections
from tests.system.faults.random_faults import inject_faults
from tests.system.faults.server_kills import CASES, VOLATILE, Case, kill_servers

pytestmark = pytest.mark.skipif(not Path("/proc/self/stat").exists(), reason="needs /proc")

SEED = 20_261
NEEDS_REDIS = pytest.mark.redis


def with_markers(names: Iterable[str]) -> list[Any]:
    return [pytest.param(name, marks=[NEEDS_REDIS] * name.startswith("Redis")) for name in names]


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(CASES[0], id=CASES[0].name, marks=pytest.mark.ci),
        *(pytest.param(case, id=case.name, marks=[NEEDS_REDIS] * bool(case.engine)) for case in CASES[1:]),
    ],
)
def test_kill_9_under_load_loses_and_duplicates_nothing(case: Case, tmp_path: Path) -> None:
    result = kill_servers(case, 1, SEED, tmp_path)
    assert not result.violations
    assert result.counts["acknowledged"]
    assert result.counts["unknown"]


@pytest.mark.redis
def test_the_checks_detect_an_engine_that_loses_data(tmp_path: Path) -> None:
    found = " ".join(kill_servers(VOLATILE, 1, SEED, tmp_path).violations)
    assert "lost, and executed again after it was acknowledged" in found
    assert "the replies differ" in found


@pytest.mark.redis
@pytest.mark.parametrize("name", CUTS)
def test_a_server_without_redis_refuses_and_loses_nothing(name: str, tmp_path: Path) -> None:
    result = cut_connections(name, 1, 0, tmp_path)
    assert not result.violations
    assert result.counts["refused"]
    if "commits" in name:
        assert result.counts["stored"]


@pytest.mark.parametrize(
    ("name", "clients"),
    [
        pytest.param("SQLite", 80, marks=pytest.mark.ci),
        *(pytest.param(*store.values, 500, marks=store.marks) for store in with_markers(STORES)),
    ],
)
def test_identical_creations_create_one_payment(name: str, clients: int, tmp_path: Path) -> None:
    result = create_concurrently(name, 2, tmp_path, clients)
    assert not result.violations
    assert result.counts["replies"] == 2 * clients


@pytest.mark.parametrize("name", with_markers(random_faults.STORES))
def test_random_requests_and_faults_give_a_consistent_history(name: str, tmp_path: Path) -> None:
    result = inject_faults(name, 3, SEED, tmp_path)
    assert not result.violations, f"seed {SEED}: {result.violations}"
    assert result.counts["faults"]
