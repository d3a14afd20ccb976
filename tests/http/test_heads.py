"""Mutated requests: whatever comes over the wire, the server answers in HTTP, and serves on."""

from pathlib import Path

import pytest

from tests.support.heads import proof

MOST_SILENT = 0.01
"""The share of requests that may want a body that never comes."""

OFTEN = 2_000
"""One in so many requests must have taken each way through the server, or they are too tame, or too wild."""


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="counts open files in /proc")
@pytest.mark.parametrize(
    "count", [pytest.param(2_000, marks=pytest.mark.process), pytest.param(30_000, marks=pytest.mark.nightly)]
)
def test_mutated_requests_find_no_defect(tmp_path: Path, count: int) -> None:
    outcome = proof(tmp_path, count, seed=8402)
    assert not outcome.violations, outcome.violations[:20]
    assert outcome.silent < count * MOST_SILENT
    for status in ("200", "201", "204", "400", "401", "404", "405", "415", "421", "431"):
        assert outcome.replies[status] > count // OFTEN, outcome.replies
