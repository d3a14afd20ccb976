"""The system's clock, on a machine whose clock is set back, or which sleeps."""

from hypothesis import given
from hypothesis import strategies as st

from paymock.app.system_clock import system_clock

SECOND = 1_000_000_000


class Machine:
    """A machine whose wall clock can be set, and which can sleep: its monotonic clock stands still then."""

    def __init__(self) -> None:
        self.wall, self.monotonic = 1_800_000_000 * SECOND, 5 * SECOND

    def passes(self, seconds: float) -> None:
        self.wall += round(seconds * SECOND)
        self.monotonic += round(seconds * SECOND)


def test_it_follows_the_wall_clock() -> None:
    machine = Machine()
    clock = system_clock(lambda: machine.wall, lambda: machine.monotonic)
    machine.passes(1.5)
    assert clock() == 1_800_000_001_500


def test_it_goes_on_when_the_wall_clock_is_set_back() -> None:
    machine = Machine()
    clock = system_clock(lambda: machine.wall, lambda: machine.monotonic)
    machine.wall -= 3600 * SECOND
    machine.passes(2)
    assert clock() == 1_800_000_002_000


def test_it_catches_up_after_the_machine_has_slept() -> None:
    machine = Machine()
    clock = system_clock(lambda: machine.wall, lambda: machine.monotonic)
    machine.wall += 3600 * SECOND
    assert clock() == 1_800_003_600_000


@given(st.lists(st.tuples(st.sampled_from(["pass", "set"]), st.integers(-7200, 7200))))
def test_it_never_runs_backwards(steps: list[tuple[str, int]]) -> None:
    machine = Machine()
    clock = system_clock(lambda: machine.wall, lambda: machine.monotonic)
    seen = clock()
    for what, seconds in steps:
        if what == "set":
            machine.wall += seconds * SECOND
        else:
            machine.passes(abs(seconds))
        assert clock() >= seen
        seen = clock()
