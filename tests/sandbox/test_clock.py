"""The system's clock, on a machine whose clock is set back, or which sleeps."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.sandbox.clock import SystemClock

SECOND = 1_000_000_000


class Machine:
    """A machine whose wall clock can be set, and which can sleep: its monotonic clock stands still then."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_800_000_000 * SECOND, 5 * SECOND
        self.warnings: list[str] = []

    def clock(self) -> SystemClock:
        return SystemClock(self.warnings.append, lambda: self.wall, lambda: self.monotonic)

    def passes(self, seconds: float) -> None:
        self.wall += round(seconds * SECOND)
        self.monotonic += round(seconds * SECOND)


@pytest.mark.parametrize(("wall_set_by", "later"), [(0, 1_500), (-3600, 1_500), (3600, 3_601_500)])
def test_it_follows_the_wall_clock_forward_only(wall_set_by: int, later: int) -> None:
    machine = Machine()
    clock = machine.clock()
    machine.wall += wall_set_by * SECOND
    machine.passes(1.5)
    assert clock() == 1_800_000_000_000 + later


@given(st.lists(st.tuples(st.sampled_from(["pass", "set"]), st.integers(-7200, 7200))))
def test_it_never_runs_backwards(steps: list[tuple[str, int]]) -> None:
    machine = Machine()
    clock = machine.clock()
    seen = clock()
    for what, seconds in steps:
        if what == "set":
            machine.wall += seconds * SECOND
        else:
            machine.passes(abs(seconds))
        assert clock() >= seen
        seen = clock()


def test_a_clock_that_is_set_back_is_logged_once() -> None:
    machine = Machine()
    clock = machine.clock()
    for _ in range(2):
        clock()
        machine.wall -= 3600 * SECOND
        machine.passes(2)
    clock()
    assert machine.warnings == ["the system clock was set back by 3600 s; the virtual clocks do not go back"]


def test_it_goes_on_from_a_later_time_which_is_logged() -> None:
    machine = Machine()
    clock = machine.clock()
    for time in (1_800_000_030_000, 1_800_000_010_000, 1_800_000_030_020):
        clock.catch_up(time)
    assert clock() == 1_800_000_030_020
    machine.passes(2)
    assert clock() == 1_800_000_032_020
    assert machine.warnings == ["the system clock is 30 s behind the store; the virtual clocks follow that"]


def test_a_correction_of_a_clock_that_was_behind_changes_nothing_that_was_shown() -> None:
    machine = Machine()
    clock = machine.clock()
    clock.catch_up(1_800_000_030_000)
    machine.wall += 29 * SECOND
    assert clock() == 1_800_000_030_000
    machine.wall += 2 * SECOND
    assert clock() == 1_800_000_031_000
