"""The rules, each by a journal that breaks it and by those that nearly do."""

from typing import Any

import pytest

from paymock.rules.errors import RETRY_AFTER_SECONDS
from paymock.rules.scenarios import PaymentStatus
from paymock.verify.rules import RULES, Observation, Violation, final_statuses, judge
from tests.support.journal import PAYMENT, JournalWriter

OTHER = "pay_" + "b" * 40
PAID = ("awaiting_payment", "payment_detected", "payment_finalized", "settlement_submitted", "completed")
EXPIRED = ("awaiting_payment", "expired")
FAILED = (*PAID[:-1], "failed")


@pytest.fixture
def journal() -> JournalWriter:
    return JournalWriter()


def bought(**changes: Any) -> Observation:
    """A trial that went well: the payment was made, and the goods went out once."""
    fields = {"statuses": PAID, "payments": [PAYMENT], "deliveries": 1, "delivered_at": "completed"}
    return Observation(**{"entries": [], "calls": [], **fields, **changes})


def trial(journal: JournalWriter, *, calls: list[int] | None = None, **changes: Any) -> Observation:
    """The same, with these requests; of an application that polls by itself, without `calls`."""
    entries = journal.oldest_first
    return bought(entries=entries, calls=calls or [0] * len(entries), **changes)


def found(observation: Observation, fulfil_at: str = "completed") -> list[str]:
    return [violation.rule for violation in judge(observation, fulfil_at)]


def test_what_went_well_breaks_no_rule(journal: JournalWriter) -> None:
    journal.creation()
    for status in PAID:
        journal.read(status)
        journal.wait(1)
    assert found(trial(journal)) == []


class TestFreeGoods:
    @pytest.mark.parametrize(
        ("statuses", "delivered_at", "explanation"),
        [
            (EXPIRED, "expired", "went out when the payment was `expired`; the payment ended as `expired`"),
            (FAILED, "payment_finalized", "was `payment_finalized`; the payment ended as `failed`"),
            (FAILED, None, "The goods went out; the payment ended as `failed` and was never `completed`."),
            ((), None, "The goods went out; the payment ended as `never created`"),
        ],
    )
    def test_goods_went_out_that_were_never_due(
        self, statuses: tuple[str, ...], delivered_at: str | None, explanation: str
    ) -> None:
        [violation] = judge(bought(statuses=statuses, delivered_at=delivered_at), "completed")
        assert violation.rule == "free_goods"
        assert explanation in violation.explanation

    @pytest.mark.parametrize("status", PAID[:-1])
    def test_goods_went_out_before_they_were_due(self, status: str) -> None:
        assert judge(bought(delivered_at=status), "completed") == [
            Violation(
                "free_goods",
                f"The goods went out when the payment was `{status}`, before it was `completed`.",
            )
        ]

    @pytest.mark.parametrize("fulfil_at", PAID[1:])
    def test_goods_may_go_out_exactly_when_they_are_due_and_later(self, fulfil_at: str) -> None:
        for status in PAID[PAID.index(fulfil_at) :]:
            assert found(bought(delivered_at=status), fulfil_at) == []

    @pytest.mark.parametrize("statuses", [PAID, FAILED])
    def test_what_follows_does_not_matter(self, statuses: tuple[str, ...]) -> None:
        """Who delivers when the funds are final bears the risk of the settlement."""
        delivered = bought(statuses=statuses, delivered_at="payment_finalized")
        assert found(delivered, "payment_finalized") == []

    def test_without_a_close_look_nobody_knows_when(self) -> None:
        assert found(bought(delivered_at=None)) == []

    @pytest.mark.parametrize("statuses", [EXPIRED, FAILED, ()])
    def test_no_goods_no_payment(self, statuses: tuple[str, ...]) -> None:
        assert found(bought(statuses=statuses, deliveries=0, delivered_at=None)) == []


class TestLostSale:
    @pytest.mark.parametrize(
        ("last", "changes", "reason"),
        [
            ("settlement_submitted", {}, "ended: the application never read that."),
            ("completed", {}, "ended: the application read that."),
            (
                "payment_detected",
                {"gave_up": True},
                "the application sent nothing more after its `getPayment`.",
            ),
        ],
    )
    def test_paid_and_not_delivered(
        self, journal: JournalWriter, last: str, changes: dict[str, Any], reason: str
    ) -> None:
        journal.read(last)
        [violation] = judge(trial(journal, deliveries=0, delivered_at=None, **changes), "completed")
        assert violation.rule == "lost_sale"
        assert violation.explanation.endswith(reason)

    def test_an_application_that_never_asks_has_lost_it_too(self) -> None:
        [violation] = judge(bought(deliveries=0, delivered_at=None, gave_up=True), "completed")
        assert violation.explanation.endswith("the application sent nothing.")

    @pytest.mark.parametrize("statuses", [EXPIRED, FAILED, PAID[:-1]])
    def test_nothing_is_lost_before_goods_are_due(self, statuses: tuple[str, ...]) -> None:
        assert found(bought(statuses=statuses, deliveries=0, delivered_at=None)) == []


@pytest.mark.parametrize("deliveries", [2, 3, 90])
def test_goods_must_not_go_out_twice(deliveries: int) -> None:
    assert judge(bought(deliveries=deliveries), "completed") == [
        Violation("double_delivery", f"The goods of one order went out {deliveries} times.")
    ]
    unpaid = bought(statuses=EXPIRED, deliveries=deliveries, delivered_at=None)
    assert found(unpaid) == ["free_goods", "double_delivery"]


def test_two_payments_for_one_order_can_be_paid_twice() -> None:
    [violation] = judge(bought(payments=[PAYMENT, OTHER]), "completed")
    assert violation.rule == "double_payment"
    assert "2 payments were created for one order: the customer may pay twice" in violation.explanation


class TestKeys:
    def test_another_key_after_a_lost_reply(self, journal: JournalWriter) -> None:
        journal.creation(status=0, fault="drop")
        journal.wait(2)
        journal.creation(payment_id=OTHER)
        seen = trial(journal, payments=[PAYMENT, OTHER])
        assert found(seen) == ["double_payment", "key_not_reused"]

    def test_a_key_with_another_body(self, journal: JournalWriter) -> None:
        journal.creation()
        journal.creation("conflict", None, status=409, error="idempotency_key_reused")
        [violation] = judge(trial(journal), "completed")
        assert violation.rule == "key_conflict"
        assert violation.explanation.startswith("An Idempotency-Key was used again with another body")
        assert violation.explanation.endswith(".")

    @pytest.mark.parametrize("replays", [1, 5])
    def test_a_retry_with_the_same_key_is_right(self, journal: JournalWriter, replays: int) -> None:
        journal.creation(status=0, fault="drop")
        for _ in range(replays):
            journal.wait(2)
            journal.creation("replayed")
        assert found(trial(journal)) == []


class TestPollsForever:
    def test_a_terminal_status_ends_polling(self, journal: JournalWriter) -> None:
        for _ in range(5):
            journal.read("completed")
            journal.wait(1)
        assert found(trial(journal)) == []
        journal.read("completed")
        assert found(trial(journal)) == ["polls_forever"]

    def test_an_expired_payment_can_still_be_paid(self, journal: JournalWriter) -> None:
        for _ in range(20):
            journal.read("expired")
            journal.wait(1)
        assert found(trial(journal, statuses=EXPIRED, deliveries=0, delivered_at=None)) == []

    def test_reads_that_failed_are_made_again(self, journal: JournalWriter) -> None:
        journal.read("completed")
        for _ in range(6):
            journal.wait(1)
            journal.read(None, status=500, fault="status=500")
        journal.wait(1)
        journal.read("completed")
        assert found(trial(journal)) == []

    def test_late_replies_are_replies(self, journal: JournalWriter) -> None:
        for _ in range(6):
            journal.read("completed", fault="delay=50; after", duration_ms=50)
            journal.wait(1)
        assert found(trial(journal)) == ["polls_forever"]


class TestIgnoresRetryAfter:
    def refused(self, journal: JournalWriter, pause: float) -> None:
        journal.read(None, status=429, fault="status=429")
        journal.wait(pause)
        journal.read()

    def test_an_application_with_a_pace_of_its_own_must_wait(self, journal: JournalWriter) -> None:
        self.refused(journal, 0.1)
        [violation] = judge(trial(journal), "completed")
        assert violation.rule == "ignores_retry_after"
        assert "`getPayment` was repeated 0.1 s after a reply 429" in violation.explanation

    def test_a_pause_is_right(self, journal: JournalWriter) -> None:
        self.refused(journal, RETRY_AFTER_SECONDS)
        assert found(trial(journal)) == []

    def test_the_pace_of_ticks_is_that_of_the_judge(self, journal: JournalWriter) -> None:
        self.refused(journal, 0.001)
        assert found(trial(journal, calls=[1, 2])) == []
        assert found(trial(journal, calls=[1, 1])) == ["ignores_retry_after"]

    def test_a_customer_who_orders_again_need_not_wait(self, journal: JournalWriter) -> None:
        journal.creation(None, None, status=503, fault="status=503")
        journal.wait(0.01)
        journal.creation()
        assert found(trial(journal, reordered=True)) == []
        assert found(trial(journal, reordered=False)) == ["ignores_retry_after"]

    def test_reads_of_an_order_that_was_placed_again_must_wait(self, journal: JournalWriter) -> None:
        self.refused(journal, 0.1)
        assert found(trial(journal, reordered=True)) == ["ignores_retry_after"]


class TestGivesUp:
    def test_silence_after_a_fault(self, journal: JournalWriter) -> None:
        journal.creation()
        journal.read(None, status=0, fault="drop")
        silent = trial(journal, statuses=EXPIRED, deliveries=0, delivered_at=None, gave_up=True)
        assert judge(silent, "completed") == [
            Violation(
                "gives_up",
                "The fault had ended, and the application sent nothing more after its `getPayment`, though "
                "it knew no outcome.",
            )
        ]

    def test_it_costs_a_sale_where_there_is_one(self, journal: JournalWriter) -> None:
        journal.read(None, status=0, fault="drop")
        silent = trial(journal, deliveries=0, delivered_at=None, gave_up=True)
        assert found(silent) == ["lost_sale", "gives_up"]

    @pytest.mark.parametrize("fault", [None, "delay=300; after"])
    def test_without_a_lost_reply_the_application_was_done(
        self, journal: JournalWriter, fault: str | None
    ) -> None:
        journal.read("expired", fault=fault)
        assert found(trial(journal, statuses=EXPIRED, deliveries=0, delivered_at=None, gave_up=True)) == []


def test_other_warnings_about_requests_are_no_rules_here(journal: JournalWriter) -> None:
    for _ in range(40):  # ticks follow each other at once
        journal.read()
    assert found(trial(journal)) == []


def test_violations_come_in_the_order_of_the_rules(journal: JournalWriter) -> None:
    journal.creation("conflict", None, status=409)
    journal.read(None, status=0, fault="drop")
    broken = trial(
        journal, statuses=EXPIRED, deliveries=2, delivered_at=None, payments=[PAYMENT, OTHER], gave_up=True
    )
    rules = found(broken)
    assert rules == ["free_goods", "double_delivery", "double_payment", "key_conflict", "gives_up"]
    assert rules == sorted(rules, key=[*RULES].index)


def test_an_application_may_lose_its_interest_at_the_end_of_a_scenario_and_once_it_has_delivered() -> None:
    always = {"completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"}
    assert final_statuses("completed") == always
    assert final_statuses("payment_finalized") == always | {"payment_finalized"}
    assert always < {*PaymentStatus}
