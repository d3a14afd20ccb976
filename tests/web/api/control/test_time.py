"""The clock of a sandbox, and of one payment that is ahead of it."""

from typing import Any

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.scenarios import SCENARIOS
from paymock.settings import Settings
from tests.support.client import DUE, HALF, Api, error_of, fields_of, order
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server
from tests.support.specification import COURSES, FINAL_STATUS
from tests.web.api.control.steps import advance, deposit, detail, move

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
    def test_it_begins_as_the_servers_and_runs_at_its_speed(
        self, server: RunningServer, contract: Contract
    ) -> None:
        with Api(server.url, contract) as api:
            assert api.get("/_mock/clock").json() == {"now": "2030-01-31T12:00:00.000Z", "speed": 1.0}
            server.clock.advance(2.5)
            assert api.get("/_mock/clock").json()["now"] == "2030-01-31T12:00:02.500Z"

    def test_a_change_of_speed_counts_from_now_on(self, api: Api, server: RunningServer) -> None:
        server.clock.advance(60)
        assert api.put("/_mock/clock", json={"speed": 10}).json() == {
            "now": "2030-01-31T12:00:00.000Z",
            "speed": 10.0,
        }
        server.clock.advance(4.5)
        payment = api.created()
        assert payment["created_at"] == "2030-01-31T12:00:45.000Z"
        server.clock.advance(4.5)
        assert api.payment(payment["id"])["status"] == "completed"

    def test_an_advance_is_seen_by_the_very_next_read(self, api: Api) -> None:
        payment = api.created()
        for seconds, status in ((5, "payment_detected"), (8, "payment_finalized"), (32, "completed")):
            advance(api, seconds)
            assert api.payment(payment["id"])["status"] == status

    def test_a_frozen_sandbox_does_not_change_between_two_reads(
        self, api: Api, server: RunningServer
    ) -> None:
        payment = api.created()
        advance(api, 7.5)
        paths = [f"/v1/payments/{payment['id']}", f"/_mock/payments/{payment['id']}", "/_mock/clock"]
        before = [api.get(path).content for path in paths]
        server.clock.advance(3600)
        assert [api.get(path).content for path in paths] == before

    def test_the_expiry_of_a_request_is_held_against_the_virtual_clock(self, api: Api) -> None:
        advance(api, 86_400)
        assert list(fields_of(api.create(order(expires_at="2030-01-31T12:30:00Z")))) == ["expires_at"]

    @pytest.mark.parametrize("speed", [-1, 10_001, "1", None, True, [1], *TINY_SPEEDS])
    def test_a_speed_that_makes_no_sense_is_refused(self, api: Api, speed: object) -> None:
        assert list(fields_of(api.put("/_mock/clock", json={"speed": speed}))) == ["speed"]
        assert api.get("/_mock/clock").json()["speed"] == 0

    @pytest.mark.parametrize("seconds", [0, -1, 31_536_001, "45", None, False])
    def test_an_advance_that_makes_no_sense_is_refused(self, api: Api, seconds: object) -> None:
        assert list(fields_of(api.post("/_mock/clock/advance", json={"seconds": seconds}))) == ["seconds"]
        assert api.get("/_mock/clock").json()["now"] == "2030-01-31T12:00:00.000Z"

    def test_the_speed_of_every_sandbox_can_be_set_at_the_start(self, contract: Contract) -> None:
        with running_server(Settings(port=0, speed=60)) as server, Api(server.url, contract) as api:
            payment = api.created()
            server.clock.advance(0.75)
            assert api.payment(payment["id"])["status"] == "completed"

    def test_sandboxes_do_not_move_each_other(self, server: RunningServer, contract: Contract) -> None:
        with Api(server.url, contract) as one, Api(server.url, contract) as other:
            first, second = one.created(), other.created()
            advance(one, 45)
            one.put("/_mock/clock", json={"speed": 0})
            assert one.payment(first["id"])["status"] == "completed"
            assert other.payment(second["id"])["status"] == "awaiting_payment"
            assert other.get("/_mock/clock").json() == {"now": "2030-01-31T12:00:00.000Z", "speed": 1.0}


class TestOnePayment:
    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_next_goes_through_every_change(self, api: Api, scenario: str) -> None:
        payment = api.created(scenario)
        statuses = [payment["status"]]
        while (response := move(api, payment, to="next")).status_code == 200:
            if response.json()["status"] != statuses[-1]:
                statuses.append(response.json()["status"])
        assert error_of(response) == (409, "status_unreachable")
        assert statuses == [status for _, status in COURSES[scenario]]

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_end_goes_to_the_end_and_stays_there(self, api: Api, scenario: str) -> None:
        payment = api.created(scenario)
        final = move(api, payment, to="end").json()
        assert final["status"] == FINAL_STATUS[scenario]
        assert move(api, payment, to="end").json() == final
        assert api.payment(payment["id"]) == final

    @pytest.mark.parametrize(
        "status", ["payment_detected", "payment_finalized", "settlement_submitted", "completed"]
    )
    def test_a_status_that_lies_ahead_is_reached(self, api: Api, status: str) -> None:
        payment = api.created()
        assert move(api, payment, to=status).json()["status"] == status
        assert error_of(move(api, payment, to=status)) == (409, "status_unreachable")

    @pytest.mark.parametrize("status", ["failed", "expired", "awaiting_payment"])
    def test_a_status_that_never_comes_is_refused(self, api: Api, status: str) -> None:
        payment = api.created()
        assert error_of(move(api, payment, to=status)) == (409, "status_unreachable")
        assert api.payment(payment["id"]) == payment

    def test_only_that_payment_moves(self, api: Api) -> None:
        one, other = api.created(), api.created()
        assert move(api, one, seconds=13).json()["status"] == "payment_finalized"
        assert api.payment(other["id"]) == other
        assert api.get("/_mock/clock").json()["now"] == "2030-01-31T12:00:00.000Z"

    def test_it_stays_ahead_of_its_sandbox(self, api: Api) -> None:
        payment = api.created()
        move(api, payment, seconds=40)
        advance(api, 4.999)
        assert api.payment(payment["id"])["status"] == "settlement_submitted"
        advance(api, 0.001)
        assert api.payment(payment["id"])["status"] == "completed"

    @pytest.mark.parametrize(
        ("body", "field"),
        [
            ({}, "seconds"),
            ({"seconds": 1, "to": "next"}, "seconds"),
            ({"seconds": 0}, "seconds"),
            ({"to": "done"}, "to"),
            ({"to": 5}, "to"),
            ({"too": "next"}, "too"),
            ([], "body"),
        ],
    )
    def test_a_step_that_makes_no_sense_is_refused(self, api: Api, body: Any, field: str) -> None:
        payment = api.created()
        response = api.post(f"/_mock/payments/{payment['id']}/advance", json=body)
        assert field in fields_of(response)
        assert api.payment(payment["id"]) == payment

    def test_its_timeline_shows_past_and_future(self, api: Api) -> None:
        payment = api.created()
        advance(api, 9)
        shown = detail(api, payment)
        assert (shown["scenario"], shown["now"]) == ("happy_path", "2030-01-31T12:00:09.000Z")
        assert shown["payment"] == api.payment(payment["id"])
        assert [
            (entry["offset_seconds"], entry["event"], entry["reached"]) for entry in shown["timeline"]
        ] == [
            (0.0, "Created", True),
            (5.0, "Deposit observed, confirmations 0/16, pending: payment_detected", True),
            (7.0, "Confirmations 4/16, confirming", True),
            (9.0, "Confirmations 8/16, confirming", True),
            (11.0, "Confirmations 12/16, confirming", False),
            (13.0, "Confirmations 16/16, finalized: payment_finalized", False),
            (25.0, "settlement_pending", False),
            (30.0, "settlement_submitted", False),
            (45.0, "completed", False),
        ]
        assert shown["timeline"][-1]["at"] == "2030-01-31T12:00:45.000Z"

    def test_its_timeline_says_to_which_deposit_something_happens(self, api: Api) -> None:
        payment = api.created("underpaid_expired")
        advance(api, 10)
        deposit(api, payment, DUE - HALF)
        timeline = [
            (entry["offset_seconds"], entry["deposit"], entry["confirmations"], entry["deposit_status"])
            for entry in detail(api, payment)["timeline"]
        ]
        assert timeline == [
            (0, None, None, None),
            (5, 1, 0, "pending"),
            (7, 1, 4, "confirming"),
            (9, 1, 8, "confirming"),
            (10, 2, 0, "pending"),
            (11, 1, 12, "confirming"),
            (12, 2, 4, "confirming"),
            (13, 1, 16, "finalized"),
            (14, 2, 8, "confirming"),
            (16, 2, 12, "confirming"),
            (18, 2, 16, "finalized"),
            *[(second, None, None, None) for second in (30, 35, 50)],
        ]

    def test_its_timeline_says_that_another_asset_is_rejected(self, api: Api) -> None:
        timeline = detail(api, api.created("asset_mismatch"))["timeline"]
        assert [entry["deposit_status"] for entry in timeline] == [None, "pending", "rejected"]

    def test_it_says_how_far_it_is_ahead_of_its_sandbox(self, api: Api) -> None:
        payment = api.created()
        assert detail(api, payment)["ahead_seconds"] == 0
        move(api, payment, seconds=1.25)
        advance(api, 10)
        assert detail(api, payment)["ahead_seconds"] == 1.25

    def test_its_window_is_told(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        window = detail(api, payment)["window_seconds"]
        advance(api, window - 0.001)
        assert api.payment(payment["id"])["status"] == "awaiting_payment"
        advance(api, 0.001)
        assert api.payment(payment["id"])["status"] == "expired"

    @pytest.mark.parametrize("scenario", SCENARIOS)
    def test_it_is_shown_as_it_was_before_its_last_change(self, api: Api, scenario: str) -> None:
        payment = api.created(scenario)
        assert detail(api, payment)["before"] is None
        seen = payment
        while (response := move(api, payment, to="next")).status_code == 200:
            assert detail(api, payment)["before"] == seen
            seen = response.json()
            advance(api, 0.5)
            assert detail(api, payment)["payment"] == seen

    def test_before_a_deposit_of_this_moment_it_had_none(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        deposit(api, payment, DUE)
        assert detail(api, payment)["before"]["status"] == "awaiting_payment"

    @pytest.mark.parametrize("path", ["", "/advance", "/deposits", "/wait"])
    def test_anothers_payment_is_not_found(
        self, server: RunningServer, api: Api, contract: Contract, path: str
    ) -> None:
        with Api(server.url, contract) as other:
            payment = other.created()
            method = "GET" if path in ("", "/wait") else "POST"
            body = {"amount": "1"} if path == "/deposits" else {"to": "end"}
            response = api.request(
                method, f"/_mock/payments/{payment['id']}{path}", json=body if method == "POST" else None
            )
            assert error_of(response) == (404, "payment_not_found")
            assert other.payment(payment["id"]) == payment


class TestAnyTime:
    """Numbers that a client chooses, and clocks of other servers, which may be behind."""

    def test_minus_zero_is_zero(self, api: Api) -> None:
        for speed in (1, -0.0):
            reply = api.put("/_mock/clock", json={"speed": speed})
        assert reply.text.endswith('"speed":0.0}')

    def test_every_read_works_after_whatever_was_accepted(
        self, server: RunningServer, contract: Contract
    ) -> None:
        """The contract allows no negative age, offset or countdown."""

        @given(st.lists(steps, max_size=8))
        def check(history: list[tuple[str, float]]) -> None:
            with Api(server.url, contract) as api:
                payment = api.created()
                for step, number in history:
                    carry_out(step, number, api, payment)
                    assert [read(api, server.url, path) for path in paths_of(payment)] == [200] * 8

        def carry_out(step: str, number: float, api: Api, payment: Json) -> None:
            if step == "speed":
                assert api.put("/_mock/clock", json={"speed": number}).status_code in (200, 400, 422)
            elif step == "advance":
                assert api.post("/_mock/clock/advance", json={"seconds": number}).status_code in (
                    200,
                    400,
                    422,
                )
            elif step == "payment":
                assert move(api, payment, seconds=number).status_code in (200, 400, 422)
            elif step == "deposit":
                assert deposit(api, payment, HALF).status_code in (200, 503)
            else:
                server.clock.advance(number)

        check()


def paths_of(payment: Json) -> list[str]:
    """All reads that depend on time."""
    control, checkout = f"/_mock/payments/{payment['id']}", f"/checkout/{payment['id']}"
    return [
        "/_mock/clock",
        "/_mock/payments?limit=1",
        control,
        f"{control}/wait?timeout=0",
        f"/v1/payments/{payment['id']}",
        f"/v1/payments/{payment['id']}/attempts",
        checkout,
        f"{checkout}/events",
    ]


def read(api: Api, url: str, path: str) -> int:
    """The status of a reply; of a stream, of its first event."""
    if not path.endswith("/events"):
        return api.get(path).status_code
    with httpx.stream("GET", f"{url}{path}") as response:
        assert any(line.startswith("data: {") for line in response.iter_lines())
        return response.status_code
