"""The checks of `python -m tests.system.hostile` and `python -m tests.system.soak` detect violations."""

import os
from pathlib import Path
from typing import cast

import pytest

from harness.process_info import ProcessTree
from harness.server_process import ServerProcess
from tests.system.hostile.regular_clients import LoadResult
from tests.system.hostile.starvation import violations
from tests.system.soak.__main__ import SoakResult
from tests.system.soak.deployments import Deployment
from tests.system.soak.resource_usage import MemoryUsage, min_open_files
from tests.system.soak.users import UnexpectedReply, UserLog

FLAT = [50.0] * 100
SECONDS = [15.0 * number for number in range(100)]


@pytest.fixture(autouse=True)
def idle_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    """The machine has no other load."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1))


def test_latencies_within_the_limit_are_no_violation() -> None:
    assert [*violations(LoadResult([0.001] * 995 + [0.2] * 5, [0.001] * 1000))] == []


def test_an_error_is_detected() -> None:
    [violation] = violations(LoadResult([0.001] * 1000, [0.001] * 1000, ["GET /: 503"]))
    assert violation == "1 errors, such as GET /: 503"


def test_slow_replies_are_detected() -> None:
    assert [*violations(LoadResult([0.001] * 900 + [0.2] * 100, [0.001] * 1000))] == [
        "p99 200 ms, not below 50"
    ]


def test_cpu_time_counts_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 99.0, 99.0))
    assert [*violations(LoadResult([0.2] * 1000, [0.001] * 1000))] == []
    assert [*violations(LoadResult([0.2] * 1000, [0.1] * 1000))] == ["p99 100 ms of CPU time, not below 50"]


def soak_violations(
    *,
    memory: list[float] = FLAT,
    reply: UnexpectedReply | None = None,
    cuts: tuple[tuple[float, float], ...] = (),
    stalls: tuple[tuple[float, float], ...] = (),
    files: tuple[int, int] = (9, 9),
    minutes: float = 30,
    server_log: str = "",
) -> list[str]:
    log = UserLog(unexpected=[reply] if reply else [])
    deployment = Deployment("memory", cast(ServerProcess, None), Path("log"), 0, [*cuts], [*stalls])
    usage = MemoryUsage(SECONDS, memory)
    return [*SoakResult(deployment, log, usage, files, minutes, server_log).violations]


REFUSED = UnexpectedReply(10.0, 10.1, "create: 503 b'{}'")


def test_constant_memory_and_expected_refusals_are_no_violation() -> None:
    assert soak_violations() == []
    assert soak_violations(reply=REFUSED, cuts=((9.0, 9.5),)) == []
    assert soak_violations(reply=REFUSED, stalls=((9.0, 9.6),)) == []
    assert soak_violations(memory=[50 + second / 2000 for second in SECONDS]) == []  # half a megabyte in all
    assert soak_violations(memory=[50 - second / 100 for second in SECONDS]) == []


@pytest.mark.parametrize(
    ("options", "expected"),
    [
        ({"memory": [50 + second / 1000 for second in SECONDS]}, "grows by 3.6 MB per hour"),
        ({"memory": [50 + second / 50 for second in SECONDS], "minutes": 1}, "grew by 22.5 MB"),
        ({"files": (9, 10)}, "9 files open before, 10 after"),
        ({"server_log": "Task exception was never retrieved"}, "the server logged: Task exception"),
        ({"reply": REFUSED}, "1 unexpected replies, such as create: 503"),
        ({"reply": REFUSED, "cuts": ((1.0, 4.5),)}, "1 unexpected replies"),
        ({"reply": REFUSED, "cuts": ((11.0, 12.0),)}, "1 unexpected replies"),
        (
            {"reply": UnexpectedReply(10.0, 10.1, "create: 500 b''"), "cuts": ((9.0, 9.5),)},
            "1 unexpected replies",
        ),
        (
            {
                "reply": UnexpectedReply(10.0, 40.1, "read: 0 b''"),
                "cuts": ((9.0, 9.5),),
                "stalls": ((9.0, 9.6),),
            },
            "1 unexpected replies",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_leaks_and_unexpected_replies_are_detected(options: dict[str, object], expected: str) -> None:
    [violation] = soak_violations(**options)  # type: ignore[arg-type]
    assert expected in violation


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to look at files")
def test_a_file_that_stays_open_is_counted(tmp_path: Path) -> None:
    process = ProcessTree(os.getpid())
    before = min_open_files(process, 0.1)
    with (tmp_path / "a").open("w"):
        assert min_open_files(process, 0.1, target=before) == before + 1
    assert min_open_files(process, 0.1) == before
