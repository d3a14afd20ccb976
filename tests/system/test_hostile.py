"""What `python -m tests.system.hostile` and `python -m tests.system.soak` judge: their checks can fail."""

import os
from pathlib import Path

import pytest

from benchmarks.load import Running
from tests.system.hostile.healthy import Seen
from tests.system.hostile.slow import wrong
from tests.system.soak.__main__ import Soaked
from tests.system.soak.houses import House
from tests.system.soak.users import Diary, Surprise
from tests.system.soak.watch import Taken, least_files

FLAT = [50.0] * 100
SECONDS = [15.0 * number for number in range(100)]


@pytest.fixture(autouse=True)
def quiet(monkeypatch: pytest.MonkeyPatch) -> None:
    """A machine that nobody else uses."""
    monkeypatch.setattr(os, "getloadavg", lambda: (0.1, 0.1, 0.1))


def test_times_that_are_good_are_not_wrong() -> None:
    assert [*wrong(Seen([0.001] * 995 + [0.2] * 5, [0.001] * 1000))] == []


def test_an_error_is_found_out() -> None:
    [found] = wrong(Seen([0.001] * 1000, [0.001] * 1000, ["GET /: 503"]))
    assert found == "1 errors, such as GET /: 503"


def test_slow_replies_are_found_out() -> None:
    assert [*wrong(Seen([0.001] * 900 + [0.2] * 100, [0.001] * 1000))] == ["p99 200 ms, not below 50"]


def test_slow_work_is_found_out_on_a_busy_machine(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(os, "getloadavg", lambda: (99.0, 99.0, 99.0))
    assert [*wrong(Seen([0.2] * 1000, [0.001] * 1000))] == []
    assert [*wrong(Seen([0.2] * 1000, [0.1] * 1000))] == ["p99 100 ms of work, not below 50"]


def soaked(
    *,
    memory: list[float] = FLAT,
    surprise: Surprise | None = None,
    cuts: tuple[tuple[float, float], ...] = (),
    held_up: tuple[tuple[float, float], ...] = (),
    files: tuple[int, int] = (9, 9),
    minutes: float = 30,
    said: str = "",
) -> list[str]:
    diary = Diary(surprises=[surprise] if surprise else [])
    house = House("memory", Running("http://127.0.0.1:1", 1), Path("log"), 0, [*cuts], [*held_up])
    return [*Soaked(house, diary, Taken(SECONDS, memory), files, minutes, said).violations]


REFUSED = Surprise(10.0, 10.1, "create: 503 b'{}'")


def test_a_server_that_stays_as_it_was_is_well() -> None:
    assert soaked() == []
    assert soaked(surprise=REFUSED, cuts=((9.0, 9.5),)) == []
    assert soaked(surprise=REFUSED, held_up=((9.0, 9.6),)) == []
    assert soaked(memory=[50 + second / 2000 for second in SECONDS]) == []  # half a megabyte in all
    assert soaked(memory=[50 - second / 100 for second in SECONDS]) == []


@pytest.mark.parametrize(
    ("options", "found"),
    [
        ({"memory": [50 + second / 1000 for second in SECONDS]}, "grows by 3.6 MB an hour"),
        ({"memory": [50 + second / 50 for second in SECONDS], "minutes": 1}, "grew by 22.5 MB"),
        ({"files": (9, 10)}, "9 files open before, 10 after"),
        ({"said": "Task exception was never retrieved"}, "the server complained: Task exception"),
        ({"surprise": REFUSED}, "1 surprises, such as create: 503"),
        ({"surprise": REFUSED, "cuts": ((1.0, 4.5),)}, "1 surprises"),
        ({"surprise": REFUSED, "cuts": ((11.0, 12.0),)}, "1 surprises"),
        ({"surprise": Surprise(10.0, 10.1, "create: 500 b''"), "cuts": ((9.0, 9.5),)}, "1 surprises"),
        (
            {
                "surprise": Surprise(10.0, 40.1, "read: 0 b''"),
                "cuts": ((9.0, 9.5),),
                "held_up": ((9.0, 9.6),),
            },
            "1 surprises",
        ),
    ],
    ids=lambda value: value if isinstance(value, str) else "",
)
def test_a_server_that_wears_out_is_found_out(options: dict[str, object], found: str) -> None:
    [violation] = soaked(**options)  # type: ignore[arg-type]
    assert found in violation


@pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="needs /proc to look at files")
def test_a_file_that_stays_open_is_counted(tmp_path: Path) -> None:
    this = Running("", os.getpid())
    before = least_files(this, 0.1)
    with (tmp_path / "a").open("w"):
        assert least_files(this, 0.1, enough=before) == before + 1
    assert least_files(this, 0.1) == before
