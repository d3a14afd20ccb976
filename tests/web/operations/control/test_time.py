from tests.support.client import DUE, Api, error_of, fields_of, order


class TestClock:
    def test_the_time_of_an_empty_sandbox_is_set_back_and_ahead(self, api: Api) -> None:
        """`expires_at` may follow the clock of the system, too."""
        assert fields_of(api.put("/_mock/clock", json={})) == {"speed": "give speed, now or both"}
        for now, expires_at in (
            ("2024-02-29T12:00:00.000Z", "2024-02-29T12:00:01Z"),
            ("2031-02-28T12:00:00.000Z", "2030-01-31T12:00:01Z"),
        ):
            for setting in ({"now": "2026-01-01T00:00:00Z", "speed": 0}, {"now": now}):
                reply = api.put("/_mock/clock", json=setting)
            assert reply.json() == {"now": now, "speed": 0}
            assert "expires_at" in fields_of(api.create(order(expires_at="2024-02-29T12:00:00Z")))
            assert api.created(expires_at=expires_at)["created_at"] == now
            reply = api.put("/_mock/clock", json={"now": "2025-01-01T00:00:00Z"})
            assert error_of(reply) == (409, "sandbox_not_empty")
            assert api.get("/_mock/clock").json()["now"] == now
            api.post("/_mock/reset")

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
        assert (
            api.move(payment, to="expired")
            .json()["error"]["message"]
            .startswith(
                "`expired` does not lie ahead: the payment is `awaiting_payment` in `happy_path`; ahead: "
                "`payment_detected`, `payment_finalized`, `settlement_pending`, "
            )
        )
        for status in ("payment_detected", "payment_finalized", "settlement_submitted", "completed"):
            assert api.move(payment, to=status).json()["status"] == status
            assert error_of(api.move(payment, to=status)) == (409, "status_unreachable")
        assert "`completed` in `happy_path`; ahead: nothing." in api.move(payment, to="next").text

    def test_a_timeout_needs_something_to_wait_for(self, api: Api) -> None:
        assert [*fields_of(api.move(api.created(), to="next", timeout=3))] == ["timeout"]

    def test_before_a_deposit_of_this_moment_it_had_none(self, api: Api) -> None:
        payment = api.created("no_payment_expired")
        api.deposit(payment, DUE)
        assert api.detail(payment)["before"]["status"] == "awaiting_payment"
