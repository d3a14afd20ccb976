import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.clock import MAX_PROPAGATION_MS, ClockSetting
from paymock.rules.times import LATEST
from tests.support.clock import NOON

speeds = st.sampled_from([0, 0.001, 0.5, 1, 2, 60, 10_000])
changes = st.lists(
    st.tuples(
        st.sampled_from(["speed", "advance", "read"]), speeds, st.integers(0, 100_000), st.integers(0, 5_000)
    ),
    max_size=20,
)


def test_a_frozen_clock_stands_still_and_moves_when_advanced() -> None:
    frozen = ClockSetting(NOON, NOON, 1).with_speed(0, NOON + 500)
    assert [frozen.at(NOON + elapsed) for elapsed in (500, 10**9)] == [NOON + 500] * 2
    assert frozen.advanced(45_000).at(NOON + 10**10) == NOON + 45_500
    assert frozen.real_delay(NOON, NOON) == 0


@given(changes)
def test_time_never_goes_back_or_jumps(steps: list[tuple[str, float, int, int]]) -> None:
    clock, real, latest = ClockSetting(NOON, NOON, 1), NOON, NOON
    for change, speed, milliseconds, passed in steps:
        real += passed
        before = clock.at(real)
        if change == "speed":
            clock = clock.with_speed(speed, real)
            assert clock.at(real) == before
        elif change == "advance":
            clock = clock.advanced(milliseconds)
            assert clock.at(real) == before + milliseconds
        assert clock.at(real) >= latest
        latest = clock.at(real)


@given(speeds, st.integers(0, 10**7), st.integers(1, 10**7))
def test_the_real_delay_reaches_the_virtual_time(speed: float, passed: int, distance: int) -> None:
    clock, real = ClockSetting(NOON, NOON, speed), NOON + passed
    target = clock.at(real) + distance
    delay = clock.real_delay(target, real)
    if speed == 0:
        assert delay is None
    else:
        assert delay is not None
        assert clock.at(real + int(delay) + 1) >= target
        assert clock.at(real + int(delay) - 2) < target


@given(speeds, st.integers(0, 10**6))
def test_time_stands_still_where_real_time_was_set_back(speed: float, back: int) -> None:
    clock = ClockSetting(NOON, NOON, speed)
    assert clock.at(NOON - back) == NOON
    changed = clock.with_speed(speed + 1, NOON - back).advanced(5)
    assert changed.at(NOON - back) == changed.at(NOON) == NOON + 5
    assert changed.at(NOON + 2000) == NOON + 5 + int(2000 * (speed + 1))


@given(speeds, speeds, st.integers(0, MAX_PROPAGATION_MS))
def test_a_pending_change_of_speed_has_no_effect_before_its_time(old: float, new: float, early: int) -> None:
    before = ClockSetting(NOON, NOON, old)
    after = before.with_speed(new, NOON + 1000 - MAX_PROPAGATION_MS, delay=MAX_PROPAGATION_MS)
    assert abs(after.at(NOON + 1000 - early) - before.at(NOON + 1000 - early)) <= 1
    assert after.at(NOON + 1001) >= before.at(NOON + 1000)


def test_setting_the_same_speed_loses_no_time() -> None:
    clock = ClockSetting(NOON, NOON, 0.5)
    for real in range(NOON, NOON + 1000):
        clock = clock.with_speed(0.5, real)
    assert clock.at(NOON + 1000) == NOON + 500


def test_advancing_often_loses_no_time() -> None:
    clock = ClockSetting(NOON, NOON, 0.5)
    for _ in range(1000):
        clock = clock.advanced(1)
    assert clock.at(NOON + 1) == NOON + 1000
    assert clock.at(NOON + 2) == NOON + 1001


def test_time_stops_at_the_latest_time_that_can_be_written() -> None:
    clock = ClockSetting(NOON, NOON, 10_000).advanced(LATEST)
    assert clock.at(NOON) == LATEST
    assert clock.real_delay(LATEST + 1, NOON) is None


@pytest.mark.parametrize("slower", [0, 1])
def test_a_time_before_a_pending_slowdown_is_reached_with_it_at_the_latest(slower: float) -> None:
    fast = ClockSetting(NOON, NOON, 60)
    after = fast.with_speed(slower, NOON + 1000, delay=MAX_PROPAGATION_MS)
    assert after.real_delay(NOON + 61_000, NOON + 1000) == MAX_PROPAGATION_MS
    assert after.at(NOON + 1000 + MAX_PROPAGATION_MS) >= NOON + 61_000
