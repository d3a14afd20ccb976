"""The rules about money, and those that depend on how a trial went. test_lint.py has the others."""

from typing import Any

import pytest

from paymock.rules.errors import RETRY_AFTER_SECONDS
from paymock.rules.scenarios import PaymentStatus
from paymock.verify.checks import CHECKS, Violation, check
from paymock.verify.order import Order, final_statuses
from tests.support.journal import PAYMENT, JournalWriter

OTHER = "pay_" + "b" * 40
PAID = ("awaiting_payment", "payment_detected", "payment_finalized", "settlement_submitted", "completed")
EXPIRED = ("awaiting_payment", "expired")
FAILED = (*PAID[:-1], "failed")
COMPLETED = ("completed",)
UNDELIVERED: dict[str, Any] = {"deliveries": 0, "delivered_at": None}


@pytest.fixture
def journal() -> JournalWriter:
    return JournalWriter()


def bought(**changes: Any) -> Order:
    """An order that went well: the payment was made, and the goods went out once."""
    fields = {
        "statuses": PAID,
        "payments": [PAYMENT],
        "deliveries": 1,
        "delivered_at": "completed",
        **changes,
    }
    shown = {"reached": {*fields["statuses"]}, "stood": {*fields["statuses"]}}
    order = Order()
    for name, value in {**shown, **fields}.items():
        [part] = [one for one in (order.traffic, order.history, order.outcome) if hasattr(one, name)]
        setattr(part, name, value)
    return order


def trial(journal: JournalWriter, *, calls: list[int] | None = None, **changes: Any) -> Order:
    """The same, with these requests; of an application that polls by itself, without `calls`."""
    entries = journal.structs
    return bought(entries=entries, calls=calls or [0] * len(entries), **changes)


def found(order: Order, *fulfil_at: str) -> list[str]:
    return [violation.rule for violation in check(order, fulfil_at or COMPLETED)]


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
    early = bought(statuses=statuses, delivered_at=delivered_at)
    [violation] = check(early, COMPLETED)
    assert violation.rule == "free_goods"
    assert explanation in violation.explanation
    assert early.history.is_due(COMPLETED) == ("completed" in statuses)


@pytest.mark.parametrize("fulfil_at", PAID[1:])
def test_goods_may_go_out_exactly_when_they_are_due_and_later(fulfil_at: str) -> None:
    for status in PAID[PAID.index(fulfil_at) :]:
        assert found(bought(delivered_at=status), "failed", fulfil_at) == []
    if fulfil_at == "payment_finalized":  # who does not wait for the settlement bears its risk
        assert found(bought(statuses=FAILED, delivered_at=fulfil_at), fulfil_at) == []


@pytest.mark.parametrize(
    ("reads", "changes", "reason"),
    [
        (
            ["settlement_submitted"],
            {},
            ": the application never read that status: it read no more at `settlement_submitted`.",
        ),
        (["completed"], {}, ": the application read that status."),
        (["completed"], {"incident": "kill -9"}, ": the application read that status, after kill -9."),
        (["drop", "completed"], {}, ", though the faults had ended: the application read that status."),
        (["drop", "completed"], {"faults_left": True}, ": the application read that status."),
        (["drop"], {"gave_up": True, "faults_left": True}, "sent nothing more after its `getPayment`."),
        (["payment_detected"], {"gave_up": True}, "sent nothing more after its `getPayment`."),
        ([], {"gave_up": True}, ": the application sent nothing."),
        (["expired"], {"gave_up": True, "waited": 60.4}, "nothing more for 60 s after its `getPayment`."),
    ],
)
def test_paid_and_not_delivered_is_a_lost_sale(
    journal: JournalWriter, reads: list[str], changes: dict[str, Any], reason: str
) -> None:
    for shown in reads:
        journal.read(*([None] if shown == "drop" else [shown]), fault="drop" if shown == "drop" else None)
    [violation] = check(
        trial(journal, **UNDELIVERED, **changes), COMPLETED
    )  # nobody `gives_up` before the end
    assert violation.rule == "lost_sale"
    assert violation.explanation.partition("did not go out")[2].endswith(reason)
    assert reason[0] != ":" or "faults had ended" not in violation.explanation


@pytest.mark.parametrize("deliveries", [2, 3, 90])
def test_goods_must_not_go_out_twice(deliveries: int) -> None:
    assert check(bought(deliveries=deliveries), COMPLETED) == [
        Violation("double_delivery", f"The goods of one order went out {deliveries} times.")
    ]
    unpaid = bought(statuses=EXPIRED, deliveries=deliveries, delivered_at=None)
    assert found(unpaid) == ["free_goods", "double_delivery"]


@pytest.mark.parametrize("pause", [0.1, RETRY_AFTER_SECONDS])
def test_between_two_ticks_the_pace_is_that_of_the_judge(journal: JournalWriter, pause: float) -> None:
    journal.read(None, status=429, fault="status=429")
    journal.wait(pause)
    journal.read()
    rules = ["ignores_retry_after"] * (pause < RETRY_AFTER_SECONDS)
    assert found(trial(journal, calls=[1, 2])) == found(trial(journal, calls=[-1, -1])) == []
    assert found(trial(journal, calls=[1, 1])) == rules
    assert found(trial(journal, order_errors=["no"])) == rules


def test_a_customer_who_orders_again_need_not_wait(journal: JournalWriter) -> None:
    journal.creation(None, None, status=503, fault="status=503")
    journal.wait(0.01)
    journal.creation()
    assert found(trial(journal, order_errors=["no"])) == []
    assert found(trial(journal)) == ["ignores_retry_after"]


@pytest.mark.parametrize("fault", ["drop", "hang", "status=500", "status=503; after", "truncate=9"])
def test_silence_after_a_fault_is_giving_up(journal: JournalWriter, fault: str) -> None:
    journal.read(None, status=0, fault=fault)
    expired = trial(journal, **UNDELIVERED, statuses=EXPIRED, gave_up=True)
    assert check(expired, COMPLETED) == [
        Violation(
            "gives_up",
            "The fault had ended, and the application sent nothing more after its `getPayment`, though "
            "it knew no outcome.",
        )
    ]
    assert found(trial(journal, **UNDELIVERED, gave_up=True)) == ["lost_sale", "gives_up"]
    assert found(trial(journal, **UNDELIVERED, statuses=EXPIRED, gave_up=True, faults_left=True)) == []


@pytest.mark.parametrize("fault", [None, "delay=300", "delay=300; after"])
def test_who_lost_no_reply_and_is_silent_was_done(journal: JournalWriter, fault: str | None) -> None:
    journal.read("expired", fault=fault)
    assert found(trial(journal, **UNDELIVERED, statuses=EXPIRED, gave_up=True)) == []


@pytest.mark.parametrize(
    ("changes", "rules"),
    [
        ({"delivered_at": None}, []),  # without a close look, nobody knows when they went out
        *(({"statuses": unpaid, **UNDELIVERED}, []) for unpaid in (EXPIRED, FAILED, PAID[:-1], ())),
        ({"payments": [PAYMENT, OTHER]}, ["double_payment"]),
        ({"acknowledged": True}, []),
        ({"acknowledged": True, "payments": [], "statuses": (), **UNDELIVERED}, ["lost_order"]),
        ({"acknowledged": False, "payments": [], "statuses": (), **UNDELIVERED}, []),
        ({"incident": "kill -9", "stays_down": "it ended."}, ["stays_down"]),
        ({"is_excused": True, **UNDELIVERED}, []),
        ({"stood": {"awaiting_payment"}, **UNDELIVERED}, []),  # the rest was jumped over
        ({"statuses": EXPIRED, "stood": {"completed"}, **UNDELIVERED}, ["lost_sale"]),  # of an older payment
        ({"statuses": EXPIRED, "reached": {"completed"}, "delivered_at": "expired"}, []),
        ({"is_excused": True, "deliveries": 2}, ["double_delivery"]),
    ],
)
def test_what_breaks_which_rule(changes: dict[str, Any], rules: list[str]) -> None:
    assert found(bought(**changes)) == rules


@pytest.mark.parametrize(("read", "rules"), [(["expired", "expired"], []), ([], ["double_payment"])])
def test_a_new_payment_after_an_expired_one_is_a_renewal(
    journal: JournalWriter, read: list[str], rules: list[str]
) -> None:
    journal.creation()
    for status in read:
        journal.read(status)
    journal.creation("replayed")  # shows the first one as it was
    journal.creation(payment_id=OTHER)
    assert found(trial(journal, payments=[PAYMENT, OTHER])) == rules
    journal.creation(payment_id="third")
    assert "double_payment" in found(trial(journal, payments=[PAYMENT, OTHER, "third"]))


@pytest.mark.parametrize(
    ("reads", "stood", "rules"),
    [
        ({30: "expired"}, EXPIRED, ["late_money_unseen"]),
        ({30: "expired", 35: "manual_review"}, EXPIRED, []),
        ({30: "expired", 35: "expired"}, EXPIRED, []),  # of another asset
        ({0: "awaiting_payment"}, EXPIRED, []),
        ({30: "expired"}, PAID, ["lost_sale"]),
    ],
)
def test_late_money_must_be_seen(
    journal: JournalWriter, reads: dict[int, str], stood: tuple[str, ...], rules: list[str]
) -> None:
    for at, status in reads.items():
        journal.read(status, shown_offset_seconds=at)
    assert found(trial(journal, stood={*stood}, deposits={PAYMENT: 35.0}, **UNDELIVERED)) == rules


@pytest.mark.parametrize(
    ("changes", "explanations"),
    [
        ({}, []),
        ({"deliveries": 2}, ["the goods of one order went out 2 times"]),
        ({"deliveries": 2, "incident": "the application ended"}, ["the application ended"]),
    ],
)
def test_what_goes_wrong_with_unknown_members_only_is_advice(
    changes: dict[str, Any], explanations: list[str]
) -> None:
    violations = check(bought(unknown="members", **changes), COMPLETED)
    assert [violation.rule for violation in violations] == ["breaks_on_new_fields"] * len(explanations)
    for violation, text in zip(violations, explanations, strict=True):
        assert violation.explanation.startswith(f"With unknown members in replies, {text}")


def test_violations_come_in_the_order_of_the_rules(journal: JournalWriter) -> None:
    journal.creation("conflict", None, status=409)
    journal.read(None, status=0, fault="drop")
    broken = trial(
        journal, statuses=EXPIRED, deliveries=2, delivered_at=None, payments=[PAYMENT, OTHER], gave_up=True
    )
    rules = found(broken)
    assert rules == ["free_goods", "double_delivery", "double_payment", "key_conflict", "gives_up"]
    assert rules == sorted(rules, key=[*CHECKS].index)


def test_an_application_may_lose_its_interest_at_the_end_of_a_scenario_and_once_it_has_delivered() -> None:
    always = {"completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"}
    assert final_statuses(COMPLETED) == always
    assert final_statuses(("payment_finalized",)) == always | {"payment_finalized"}
    assert always < {*PaymentStatus}
