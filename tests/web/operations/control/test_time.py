from collections.abc import Callable

import httpx
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.client import DUE, HALF, Api, error_of, fields_of
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer

TINY_SPEEDS = (5e-324, 1e-320, 1e-9, 0.000999, -5e-324)
"""Numbers by which a division overflows, or leads to a time that never comes."""

speeds = st.one_of(
    st.sampled_from([0, -0.0, 0.001, 10_000, *TINY_SPEEDS]), st.floats(0, 1), st.floats(-1, 20_000)
)
seconds = st.one_of(st.sampled_from([5e-324, 31_536_000]), st.floats(-1, 31_536_001), st.integers(0, 10**400))
steps = st.one_of(
    st.tuples(st.just("speed"), speeds),
    st.tuples(st.sampled_from(["advance", "payment"]), seconds),
    st.tuples(st.just("deposit"), st.just(0)),
    st.tuples(st.just("the system clock"), st.sampled_from([-3600, -0.02, 0.05, 60])),
)


class TestClock:
    def test_a_speed_that_makes_no_sense_is_refused(self, api: Api) -> None:
        for speed in (-1, 10_001, "1", None, True, [1], *TINY_SPEEDS):
            assert list(fields_of(api.put("/_mock/clock", json={"speed": speed}))) == ["speed"]
        assert api.get("/_mock/clock").json()["speed"] == 0

    def test_an_advance_that_makes_no_sense_is_refused(self, api: Api) -> None:
        for seconds in (0, -1, 31_536_001, "45", None, False):
            reply = api.post("/_mock/clock/advance", json={"seconds": seconds})
            assert list(fields_of(reply)) == ["seconds"]
        assert api.get("/_mock/clock").json()["now"] == "2030-01-31T12:00:00.000Z"

    def test_minus_zero_is_zero(self, api: Api) -> None:
        for speed in (1, -0.0):
            reply = api.put("/_mock/clock", json={"speed": speed})
        assert reply.text.endswith('"speed":0.0}')


class TestOnePayment:
    def test_a_status_is_reached_if_it_lies_ahead(self, api: Api) -> None:
        payment = api.created()
        for status in ("failed", "expired", "awaiting_payment"):
            assert error_of(api.move(payment, to=status)) == (409, "status_unreachable")
            assert api.payment(payment["id"]) == payment
        for status in ("payment_detected", "payment_finalized", "settlement_submitted", "completed"):
            assert api.move(payment, to=status).json()["status"] == status
            assert error_of(api.move(payment, to=status)) == (409, "status_unreachable")

    def test_before_a_deposit_of_this_moment_it_had_none(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        api.deposit(payment, DUE)
        assert api.detail(payment)["before"]["status"] == "awaiting_payment"


@pytest.mark.parametrize("examples", [12, pytest.param(100, marks=pytest.mark.nightly)])
def test_reads_work_after_whatever_was_accepted(
    server: RunningServer, contract: Contract, examples: int
) -> None:
    """The contract allows no negative age, offset or countdown, though clocks of servers may be behind."""

    @settings(max_examples=examples)
    @given(st.lists(steps, max_size=8))
    def check(history: list[tuple[str, float]]) -> None:
        with Api(server.url, contract) as api:
            payment = api.created()
            for step, number in history:
                assert carry_out(step, number, api, payment) in (200, 400, 422, 503)
            control, checkout = f"/_mock/payments/{payment['id']}", f"/checkout/{payment['id']}"
            public = f"/v1/payments/{payment['id']}"
            lists = ("/_mock/clock", "/_mock/payments?limit=1")
            for path in (
                *lists,
                control,
                f"{control}/wait?timeout=0",
                public,
                f"{public}/attempts",
                checkout,
            ):
                assert api.get(path).status_code == 200
            with httpx.stream("GET", f"{server.url}{checkout}/events") as response:
                assert any(line.startswith("data: {") for line in response.iter_lines())

    def carry_out(step: str, number: float, api: Api, payment: Json) -> int:
        if step == "the system clock":
            server.clock.advance(number)
            return 200
        requests: dict[str, Callable[[], httpx.Response]] = {
            "speed": lambda: api.put("/_mock/clock", json={"speed": number}),
            "advance": lambda: api.post("/_mock/clock/advance", json={"seconds": number}),
            "payment": lambda: api.move(payment, seconds=number),
            "deposit": lambda: api.deposit(payment, HALF),
        }
        return requests[step]().status_code

    check()
