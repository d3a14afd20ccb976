import sys
import time
from datetime import datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest

from paymock.testing import NotReached, Refused, Sandbox, serve


class TestTime:
    def test_the_clock_can_run_and_be_frozen_again(self, paymock: Sandbox) -> None:
        payment = paymock.create()
        paymock.speed(1000)
        assert paymock.wait(payment["id"], "completed")["status"] == "completed"
        paymock.freeze()
        assert paymock.now() == paymock.now()

    def test_waits_and_delays_end_while_a_test_freezes_the_time(
        self, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        """As freezegun does. The server is in this process, on the loop of asyncio."""
        frozen = time.monotonic()
        monkeypatch.setitem(sys.modules, "uvloop", None)
        with serve() as server, server.sandbox() as paymock, monkeypatch.context() as frozen_time:
            frozen_time.setattr(time, "monotonic", lambda: frozen)
            paymock.fault("delay=1")
            payment = paymock.create()
            with pytest.raises(NotReached, match="the clock is frozen: advance it"):
                paymock.wait(payment["id"], "completed", timeout=0.01)


AN_ID: Any = "pay_x"


class TestArguments:
    def test_a_fault_of_the_next_creation_is_refused_with_the_method_for_faults(
        self, paymock: Sandbox
    ) -> None:
        with pytest.raises(TypeError, match="call fault\\('drop', operation=\"createPayment\"\\)"):
            paymock.next(fault="drop")  # type: ignore[arg-type]

    def test_seconds_may_be_a_timedelta(self, paymock: Sandbox) -> None:
        before, payment = paymock.now(), paymock.create()
        assert paymock.advance(timedelta(seconds=13)) == before + timedelta(seconds=13)
        step = timedelta(seconds=31, milliseconds=999)
        assert paymock.advance_payment(payment["id"], seconds=step)["status"] == "settlement_submitted"
        assert paymock.advance(timedelta(milliseconds=1)) == before + timedelta(seconds=13.001)
        with pytest.raises(NotReached, match="the next change, 5 s ahead"):
            paymock.wait(paymock.create()["id"], timeout=timedelta(0))

    def test_an_expiry_may_be_a_datetime(self, paymock: Sandbox) -> None:
        expires_at = paymock.now() + timedelta(minutes=5)
        assert datetime.fromisoformat(paymock.create(expires_at=expires_at)["expires_at"]) == expires_at
        with pytest.raises(Refused, match="expires_at: must be an RFC 3339 time with an offset"):
            paymock.create(expires_at=expires_at.replace(tzinfo=None))

    @pytest.mark.parametrize(
        ("call", "argument"),
        [
            (lambda paymock, value: paymock.advance(value), "seconds"),
            (lambda paymock, value: paymock.advance_payment(AN_ID, seconds=value), "seconds"),
            (lambda paymock, value: paymock.wait(AN_ID, timeout=value), "timeout"),
            (lambda paymock, value: paymock.wait_for("order-7", timeout=value), "timeout"),
            (lambda paymock, value: paymock.wait_for_requests(timeout=value), "timeout"),
        ],
    )
    def test_a_wrong_number_is_named(self, paymock: Sandbox, call: Any, argument: str) -> None:
        for value, error, shown in [
            (True, TypeError, "True"),
            ("45", TypeError, "'45'"),
            (float("nan"), ValueError, ""),
            (-1, ValueError, ""),
        ]:
            with pytest.raises(error, match=f"^{argument} must be .*{shown}$"):
                call(paymock, value)

    @pytest.mark.parametrize("value", [0, timedelta(seconds=-1), 10**9, 10**300, float("inf"), timedelta.max])
    def test_a_step_is_more_than_nothing_and_at_most_a_year(self, paymock: Sandbox, value: Any) -> None:
        message = r"^seconds must be a finite|seconds: must be .* at most"
        with pytest.raises((Refused, ValueError), match=message):
            paymock.advance(value)

    @pytest.mark.parametrize("amount", [1.5, True, None, -1, "1.5"], ids=type)
    def test_an_invalid_amount_is_named(self, paymock: Sandbox, amount: Any) -> None:
        payment = paymock.create()
        message = r"(?m)^  (receive\.)?amount: must"
        with pytest.raises(Refused, match=message):
            paymock.create(amount=amount)
        with pytest.raises(Refused, match=message):
            paymock.deposit(payment["id"], amount)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda paymock: paymock.payment({"id": "pay_x"}), "payment_id must be a string, not dict"),
            (lambda paymock: paymock.payment(""), "payment_id must not be empty"),
            (lambda paymock: paymock.clear_faults(""), "fault_id must not be empty"),
            (lambda paymock: paymock.create(metadata={"a": Decimal(1)}), "Decimal is not JSON serializable"),
            (lambda paymock: paymock.create(metadata={"a": float("nan")}), "not JSON compliant"),
            (lambda paymock: type(paymock)(None, "mk_test_demo"), "the URL of a server must be a string"),
            (lambda paymock: type(paymock)(paymock.url, "mk_test_secret\n"), "api_key must consist of"),
            (lambda paymock: serve(api_keys="mk_test_secret").__enter__(), "api_keys must be a list"),
            (lambda paymock: serve(api_keys=[5]).__enter__(), "api_keys must be a list"),
        ],
    )
    def test_what_cannot_be_sent_is_named(self, paymock: Sandbox, call: Any, message: str) -> None:
        with pytest.raises((TypeError, ValueError), match=message) as caught:
            call(paymock)
        assert "secret" not in str(caught.value)

    @pytest.mark.parametrize(
        ("call", "message"),
        [
            (lambda paymock, payment: paymock.advance_payment(payment, to="paid"), "\n  to: "),
            (lambda paymock, payment: paymock.advance_payment(payment), "give exactly one of seconds and to"),
            (lambda paymock, payment: paymock.create(chain="bitcoin"), r"\n  receive\.chain: "),
            (lambda paymock, payment: paymock.create(5), "400 invalid_scenario"),
            (lambda paymock, payment: paymock.speed("fast"), "\n  speed: must be a number"),
            (lambda paymock, payment: paymock.freeze(datetime(2024, 2, 29)), "now: must be an RFC 3339 time"),
            (lambda paymock, payment: paymock.fault("drop", skip="1"), "\n  skip: must be an integer"),
            (lambda paymock, payment: paymock.wait_for_requests(0), "400 invalid_query: count must be"),
            (lambda paymock, payment: paymock.create(idempotency_key=""), "400 idempotency_key_"),
            (lambda paymock, payment: paymock.clear_faults("flt_x"), "404 not_found"),
            (lambda paymock, payment: paymock.payment("../clock"), "404"),
            (lambda paymock, payment: paymock.payment("pay_a?b=c#d"), "404"),
            (lambda paymock, payment: paymock.wait(payment, "paid"), "400 invalid_query: status must be"),
        ],
    )
    def test_a_refused_argument_is_named(self, paymock: Sandbox, call: Any, message: str) -> None:
        payment = paymock.create()["id"]
        with pytest.raises(Refused, match=message):
            call(paymock, payment)


class TestPayments:
    def test_a_payment_is_created_with_arguments(self, paymock: Sandbox) -> None:
        payment = paymock.create(
            "no_payment_expired", amount=5, chain="base", asset="USDC", order_id="a", metadata={"b": 1}
        )
        assert payment["receive"] == {
            "chain": "base", "asset": "USDC", "amount": "5", "address": payment["receive"]["address"],
        }  # fmt: skip
        assert (payment["order_id"], payment["metadata"]) == ("a", {"b": 1})
        assert paymock.advance_payment(payment["id"], "end")["status"] == "expired"

    def test_the_same_key_without_an_order_is_a_retry(self, paymock: Sandbox) -> None:
        first = paymock.create("late_payment", idempotency_key="order-a-payment")
        assert paymock.create("late_payment", idempotency_key="order-a-payment") == first
        assert paymock.create(idempotency_key="order-b-payment")["order_id"] != first["order_id"]
        with pytest.warns(match="replayed payment follows late_payment, not happy_path") as caught:
            assert paymock.create("happy_path", idempotency_key="order-a-payment") == first
        assert caught[0].filename == __file__

    def test_a_refused_body_reports_each_invalid_field(self, paymock: Sandbox) -> None:
        with pytest.raises(Refused) as caught:
            paymock.create(amount="1.5", order_id="")
        assert (caught.value.status, caught.value.code) == (422, "validation_failed")
        assert [problem["field"] for problem in caught.value.details] == ["order_id", "receive.amount"]
        assert "\n  receive.amount: must " in str(caught.value)
        assert caught.value.message in str(caught.value)


class TestReset:
    def test_a_reset_leaves_a_frozen_clock_frozen(self, paymock: Sandbox) -> None:
        later = paymock.advance(86_400)
        paymock.reset()
        assert paymock.now() == paymock.now() < later
        paymock.speed(60)
        paymock.reset()
        assert paymock.clock()["speed"] == 1
