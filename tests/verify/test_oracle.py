"""The rules about money, and those that depend on how a trial went. test_lint.py has the others."""

from typing import Any

import pytest

from paymock.rules.errors import RETRY_AFTER_SECONDS
from paymock.rules.scenarios import PaymentStatus
from paymock.verify.oracle import RULES, Observation, Violation, check, final_statuses
from tests.support.journal import PAYMENT, JournalWriter

OTHER = "pay_" + "b" * 40
PAID = ("awaiting_payment", "payment_detected", "payment_finalized", "settlement_submitted", "completed")
EXPIRED = ("awaiting_payment", "expired")
FAILED = (*PAID[:-1], "failed")
UNDELIVERED: dict[str, Any] = {"deliveries": 0, "delivered_at": None}


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
    return [violation.rule for violation in check(observation, fulfil_at)]


def test_what_went_well_breaks_no_rule(journal: JournalWriter) -> None:
    journal.creation()
    for status in PAID:
        journal.read(status)
        journal.wait(1)
    assert found(trial(journal)) == []


@pytest.mark.parametrize(
    ("statuses", "delivered_at", "explanation"),
    [
        (EXPIRED, "expired", "went out when the payment was `expired`; the payment ended as `expired`"),
        (FAILED, "payment_finalized", "was `payment_finalized`; the payment ended as `failed`"),
        (FAILED, None, "The goods went out; the payment ended as `failed` and was never `completed`."),
        ((), None, "The goods went out; the payment ended as `never created`"),
        *(
            (PAID, early, f"The goods went out when the payment was `{early}`, before it was `completed`.")
            for early in PAID[:-1]
        ),
    ],
)
def test_goods_that_are_not_due_are_free(
    statuses: tuple[str, ...], delivered_at: str | None, explanation: str
) -> None:
    [violation] = check(bought(statuses=statuses, delivered_at=delivered_at), "completed")
    assert violation.rule == "free_goods"
    assert explanation in violation.explanation


@pytest.mark.parametrize("fulfil_at", PAID[1:])
def test_goods_may_go_out_exactly_when_they_are_due_and_later(fulfil_at: str) -> None:
    for status in PAID[PAID.index(fulfil_at) :]:
        assert found(bought(delivered_at=status), fulfil_at) == []


def test_who_delivers_when_the_funds_are_final_bears_the_risk_of_the_settlement() -> None:
    assert found(bought(statuses=FAILED, delivered_at="payment_finalized"), "payment_finalized") == []


def test_without_a_close_look_nobody_knows_when_goods_went_out() -> None:
    assert found(bought(delivered_at=None)) == []


@pytest.mark.parametrize(
    ("last", "gave_up", "reason"),
    [
        ("settlement_submitted", False, "ended: the application never read that."),
        ("completed", False, "ended: the application read that."),
        ("payment_detected", True, "the application sent nothing more after its `getPayment`."),
        (None, True, "the application sent nothing."),
    ],
)
def test_paid_and_not_delivered_is_a_lost_sale(
    journal: JournalWriter, last: str | None, reason: str, *, gave_up: bool
) -> None:
    if last is not None:
        journal.read(last)
    [violation] = check(trial(journal, **UNDELIVERED, gave_up=gave_up), "completed")
    assert violation.rule == "lost_sale"
    assert violation.explanation.endswith(reason)


@pytest.mark.parametrize("statuses", [EXPIRED, FAILED, PAID[:-1], ()])
def test_nothing_is_lost_before_goods_are_due(statuses: tuple[str, ...]) -> None:
    assert found(bought(statuses=statuses, **UNDELIVERED)) == []


@pytest.mark.parametrize("deliveries", [2, 3, 90])
def test_goods_must_not_go_out_twice(deliveries: int) -> None:
    assert check(bought(deliveries=deliveries), "completed") == [
        Violation("double_delivery", f"The goods of one order went out {deliveries} times.")
    ]
    unpaid = bought(statuses=EXPIRED, deliveries=deliveries, delivered_at=None)
    assert found(unpaid) == ["free_goods", "double_delivery"]


def test_two_payments_for_one_order_can_be_paid_twice() -> None:
    [violation] = check(bought(payments=[PAYMENT, OTHER]), "completed")
    assert violation.rule == "double_payment"
    assert "2 payments were created for one order: the customer may pay twice" in violation.explanation


@pytest.mark.parametrize("pause", [0.1, RETRY_AFTER_SECONDS])
def test_between_two_ticks_the_pace_is_that_of_the_judge(journal: JournalWriter, pause: float) -> None:
    journal.read(None, status=429, fault="status=429")
    journal.wait(pause)
    journal.read()
    rules = ["ignores_retry_after"] * (pause < RETRY_AFTER_SECONDS)
    assert found(trial(journal, calls=[1, 2])) == []
    assert found(trial(journal, calls=[1, 1])) == rules
    assert found(trial(journal, reordered=True)) == rules


def test_a_customer_who_orders_again_need_not_wait(journal: JournalWriter) -> None:
    journal.creation(None, None, status=503, fault="status=503")
    journal.wait(0.01)
    journal.creation()
    assert found(trial(journal, reordered=True)) == []
    assert found(trial(journal, reordered=False)) == ["ignores_retry_after"]


@pytest.mark.parametrize("fault", ["drop", "hang", "status=500", "status=503; after", "truncate=9"])
def test_silence_after_a_fault_is_giving_up(journal: JournalWriter, fault: str) -> None:
    journal.read(None, status=0, fault=fault)
    expired = trial(journal, **UNDELIVERED, statuses=EXPIRED, gave_up=True)
    assert check(expired, "completed") == [
        Violation(
            "gives_up",
            "The fault had ended, and the application sent nothing more after its `getPayment`, though "
            "it knew no outcome.",
        )
    ]
    assert found(trial(journal, **UNDELIVERED, gave_up=True)) == ["lost_sale", "gives_up"]


@pytest.mark.parametrize("fault", [None, "delay=300", "delay=300; after"])
def test_who_lost_no_reply_and_is_silent_was_done(journal: JournalWriter, fault: str | None) -> None:
    journal.read("expired", fault=fault)
    assert found(trial(journal, **UNDELIVERED, statuses=EXPIRED, gave_up=True)) == []


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
