"""Whatever is done in whatever order: time never goes back, and all who look see the same."""

import threading
from itertools import pairwise

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import Transfer, simulate
from paymock.rules.times import parse_rfc3339
from tests.support.client import DUE, HALF, Api
from tests.support.contract import Contract
from tests.support.server import RunningServer
from tests.support.specification import TRANSITIONS
from tests.web.api.control.steps import advance, deposit, detail, move

steps = st.lists(
    st.one_of(
        st.tuples(st.just("advance"), st.integers(1, 20_000)),
        st.tuples(st.just("move"), st.integers(1, 20_000)),
        st.tuples(st.just("speed"), st.sampled_from([0, 1, 10])),
        st.tuples(st.just("real"), st.integers(1, 5_000)),
        st.tuples(st.just("deposit"), st.sampled_from([1, HALF, DUE - HALF, DUE])),
        st.tuples(st.just("read"), st.just(0)),
    ),
    max_size=12,
)


@settings(
    max_examples=min(60, settings().max_examples), suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.sampled_from(list(SCENARIOS)), steps)
def test_any_interleaving_is_monotone_and_ends_like_one_big_advance(
    server: RunningServer, contract: Contract, scenario: str, steps: list[tuple[str, int]]
) -> None:
    with Api(server.url, contract) as api:
        payment = api.created(scenario)
        made: list[Transfer] = []
        seen, statuses = "", [payment["status"]]
        for what, amount in steps:
            match what:
                case "advance":
                    advance(api, amount / 1000)
                case "move":
                    move(api, payment, seconds=amount / 1000)
                case "speed":
                    api.put("/_mock/clock", json={"speed": amount})
                case "real":
                    server.clock.advance(amount / 1000)
                case "deposit":
                    observed = deposit(api, payment, amount).json()["attempts"][0]["deposits"][-1][
                        "observed_at"
                    ]
                    made.append(Transfer(milliseconds_between(payment["created_at"], observed), amount))
            shown = detail(api, payment)
            assert shown["now"] >= seen
            seen = shown["now"]
            statuses += [shown["payment"]["status"]]
        advance(api, 1000)
        final = api.payment(payment["id"])
        courses = [state.status.value for state in simulate(SCENARIOS[scenario], DUE, "USDC", tuple(made))]
        assert final["status"] == courses[-1]
        walked = [entry["status"] for entry in detail(api, payment)["timeline"]]
        assert walked == courses
        for before, after in pairwise(walked):
            assert before == after or (before, after) in TRANSITIONS
        assert is_within(statuses, walked)


def milliseconds_between(earlier: str, later: str) -> int:
    first, second = parse_rfc3339(earlier), parse_rfc3339(later)
    assert first is not None
    assert second is not None
    return second - first


def is_within(seen: list[str], course: list[str]) -> bool:
    """Whether the statuses that were seen come in the order of the course."""
    rest = iter(course)
    changes = [status for before, status in pairwise(["", *seen]) if status != before]
    return all(any(status == passed for passed in rest) for status in changes)


@pytest.mark.parametrize("workers", [4, pytest.param(16, marks=pytest.mark.nightly)])
def test_parallel_sandboxes_freeze_and_advance_as_they_like(
    server: RunningServer, contract: Contract, workers: int
) -> None:
    """Clients on one server, each with its own key: all see the same course, whatever the others do."""
    transcripts: list[list[str]] = []

    def work() -> None:
        with Api(server.url, contract) as api:
            api.put("/_mock/clock", json={"speed": 0})
            seen: list[str] = []
            for scenario in SCENARIOS:
                payment = api.created(scenario)
                for _ in range(25):
                    advance(api, 2)
                    seen.append(api.payment(payment["id"])["status"])
            transcripts.append(seen)

    threads = [threading.Thread(target=work) for _ in range(workers)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(transcripts) == workers
    assert all(transcript == transcripts[0] for transcript in transcripts)
