"""The clock of a sandbox: it never runs backwards, never jumps by itself, and loses nothing."""

import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.clock import LEAD, ClockSetting
from paymock.rules.times import LATEST
from tests.support.clock import NOON

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
    assert frozen.advanced(45_000).at(NOON + 10**10) == NOON + 45_500


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
            clock = clock.advanced(milliseconds)
            assert clock.at(real) == before + milliseconds
        assert clock.at(real) >= seen
        seen = clock.at(real)


@given(speeds, st.integers(0, 10**7), st.integers(1, 10**7))
def test_a_moment_comes_when_the_clock_says_and_not_earlier(speed: float, passed: int, ahead: int) -> None:
    clock, real = ClockSetting(NOON, NOON, speed), NOON + passed
    target = clock.at(real) + ahead
    delay = clock.real_delay(target, real)
    if speed == 0:
        assert delay is None
    else:
        assert delay is not None
        assert clock.at(real + int(delay) + 1) >= target
        assert clock.at(real + int(delay) - 2) < target


def test_a_moment_that_has_come_needs_no_delay() -> None:
    assert ClockSetting(NOON, NOON, 1).real_delay(NOON, NOON) == 0


@given(speeds, st.integers(0, 10**6))
def test_where_real_time_was_set_back_beyond_the_last_change_it_stands_still(speed: float, back: int) -> None:
    clock = ClockSetting(NOON, NOON, speed)
    assert clock.at(NOON - back) == NOON
    changed = clock.running_at(speed + 1, NOON - back).advanced(5)
    assert changed.at(NOON - back) == changed.at(NOON) == NOON + 5
    assert changed.at(NOON + 2000) == NOON + 5 + int(2000 * (speed + 1))


@given(speeds, speeds, st.integers(0, LEAD))
def test_a_change_that_lies_ahead_is_seen_by_nobody_before_it_comes(
    old: float, new: float, early: int
) -> None:
    before = ClockSetting(NOON, NOON, old)
    after = before.running_at(new, NOON + 1000 - LEAD, ahead=LEAD)
    assert abs(after.at(NOON + 1000 - early) - before.at(NOON + 1000 - early)) <= 1
    assert after.at(NOON + 1001) >= before.at(NOON + 1000)


def test_setting_the_speed_that_it_has_already_loses_no_time() -> None:
    clock = ClockSetting(NOON, NOON, 0.5)
    for real in range(NOON, NOON + 1000):
        clock = clock.running_at(0.5, real)
    assert clock.at(NOON + 1000) == NOON + 500


def test_advancing_often_loses_no_time() -> None:
    clock = ClockSetting(NOON, NOON, 0.5)
    for _ in range(1000):
        clock = clock.advanced(1)
    assert clock.at(NOON + 1) == NOON + 1000
    assert clock.at(NOON + 2) == NOON + 1001


def test_time_ends_with_the_last_moment_that_can_be_written() -> None:
    clock = ClockSetting(NOON, NOON, 10_000).advanced(LATEST)
    assert clock.at(NOON) == LATEST
    assert clock.real_delay(LATEST + 1, NOON) is None


@pytest.mark.parametrize("slower", [0, 1])
def test_what_comes_before_a_slower_clock_begins_comes_with_it_at_the_latest(slower: float) -> None:
    fast = ClockSetting(NOON, NOON, 60)
    after = fast.running_at(slower, NOON + 1000, ahead=LEAD)
    assert after.real_delay(NOON + 61_000, NOON + 1000) == LEAD
    assert after.at(NOON + 1000 + LEAD) >= NOON + 61_000
