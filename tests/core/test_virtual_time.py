from hypothesis import given
from hypothesis import strategies as st

from paymock.core.virtual_time import ClockSetting

NOON = 1_896_091_200_000
speeds = st.sampled_from([0, 0.001, 0.5, 1, 2, 60, 10_000])
changes = st.lists(
    st.tuples(
        st.sampled_from(["speed", "advance", "read"]),
        speeds,
        st.integers(0, 100_000),
        st.integers(0, 5_000),
    ),
    max_size=20,
)


def test_an_untouched_clock_at_speed_1_is_real_time() -> None:
    assert ClockSetting(NOON, NOON, 1).at(NOON + 1234) == NOON + 1234


def test_a_frozen_clock_stands_still_and_moves_when_advanced() -> None:
    frozen = ClockSetting(NOON, NOON, 1).running_at(0, NOON + 500)
    assert [frozen.at(NOON + later) for later in (500, 10**9)] == [NOON + 500] * 2
    assert frozen.advanced(45_000, NOON + 10**9).at(NOON + 10**10) == NOON + 45_500


@given(changes)
def test_time_never_runs_backwards_and_changes_of_speed_never_jump(
    steps: list[tuple[str, float, int, int]],
) -> None:
    clock, real, seen = ClockSetting(NOON, NOON, 1), NOON, NOON
    for what, speed, milliseconds, passed in steps:
        real += passed
        before = clock.at(real)
        if what == "speed":
            clock = clock.running_at(speed, real)
            assert clock.at(real) == before
        elif what == "advance":
            clock = clock.advanced(milliseconds, real)
            assert clock.at(real) == before + milliseconds
        assert clock.at(real) >= seen
        seen = clock.at(real)


@given(speeds, st.integers(0, 10**7), st.integers(0, 10**7))
def test_a_moment_comes_when_the_clock_says(speed: float, passed: int, ahead: int) -> None:
    clock, real = ClockSetting(NOON, NOON, speed), NOON + passed
    delay = clock.real_delay(clock.at(real) + ahead, real)
    if speed == 0 and ahead:
        assert delay is None
    else:
        assert delay is not None
        assert clock.at(real + int(delay) + 2) >= clock.at(real) + ahead * (speed >= 1)
