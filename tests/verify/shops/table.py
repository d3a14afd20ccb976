"""The shops that prove `paymock verify`: what it has to say of each.

Money rules make the verdict UNSAFE: `free_goods`, `lost_sale`, `double_delivery`, `double_payment`. The other
rules are lesser: with them alone, the verdict is SAFE, and the finding is there.
"""

from functools import partial
from typing import NamedTuple

from tests.verify.shops import bad, good
from tests.verify.shops.base import Shop


class Case(NamedTuple):
    """A shop, and the rules that must be among the findings of its trials; none for a good one. `scenarios`:
    those that it is judged in; None: all. A bug must be found in those that show it.
    """

    name: str
    shop: type[Shop]
    verdict: str = "SAFE"
    rules: frozenset[str] = frozenset()
    fulfil_at: str = "completed"
    scenarios: tuple[str, ...] | None = None


def _with_bug(verdict: str, rules: str, *shops: tuple[str, type[Shop], *tuple[str, ...]]) -> list[Case]:
    """Shops with one bug, each with the scenarios that show it beside the happy path."""
    return [
        Case(name, shop, verdict, frozenset(rules.split()), scenarios=("happy_path", *scenarios))
        for name, shop, *scenarios in shops
    ]


_unsafe = partial(_with_bug, "UNSAFE")
_lesser = partial(_with_bug, "SAFE")


GOOD = [
    Case("poller", good.Poller),
    Case("retrying_client", good.RetryingClient),
    Case("worker", good.Worker),
    Case("thread_per_order", good.ThreadPerOrder),
    Case("outbox", good.Outbox),
    Case("attempt_reader", good.AttemptReader),
    Case("bare", good.Bare),
    Case("fulfilment_table", good.FulfilmentTable),
    Case("late_payments", good.LatePayments),
    Case("catalog", good.Catalog),
    Case("async_worker", good.AsyncWorker),
    Case("early_delivery", good.EarlyDelivery, fulfil_at="payment_finalized"),
]

BAD = [
    *_unsafe(
        "free_goods",
        ("delivers_when_detected", bad.paid_at("payment_detected")),
        (
            "delivers_when_finalized",
            bad.paid_at("payment_finalized", "settlement_pending", "settlement_submitted", "completed"),
        ),
        ("delivers_when_submitted", bad.paid_at("settlement_submitted", "completed")),
        ("delivers_underpaid", bad.paid_at("completed", "underpaid_expired"), "underpaid_expired"),
        ("delivers_overpaid", bad.paid_at("completed", "overpaid_review"), "overpaid_review"),
        ("delivers_in_review", bad.DeliversInReview, "manual_review"),
        ("delivers_late_payments", bad.DeliversLatePayments, "late_payment"),
        ("delivers_when_failed", bad.paid_at("completed", "failed"), "settlement_failed"),
        ("delivers_by_funding", bad.DeliversByFunding),
        ("delivers_by_deposit", bad.DeliversByDeposit, "underpaid_expired"),
        ("delivers_when_service_is_down", bad.DeliversWhenServiceIsDown, "no_payment_expired"),
        ("delivers_unknown_replies", bad.DeliversUnknownReplies, "no_payment_expired"),
        ("delivers_when_confirmation_fails", bad.DeliversWhenConfirmationFails, "settlement_failed"),
    ),
    *_unsafe(
        "lost_sale",
        ("drops_after_failed_poll", bad.DropsAfterFailedPoll),
        ("drops_after_three_failures", bad.DropsAfterThreeFailures),
        ("drops_when_too_fast", bad.DropsWhenTooFast),
        ("drops_on_timeout", bad.DropsOnTimeout),
        ("drops_on_html", bad.DropsOnHtml),
        ("drops_on_truncated_reply", bad.DropsOnTruncatedReply),
        ("drops_when_thread_dies", bad.DropsWhenThreadDies),
        ("forgets_unanswered_order", bad.ForgetsUnansweredOrder),
        ("refuses_to_order_again", bad.RefusesToOrderAgain),
        ("closes_before_delivery", bad.ClosesBeforeDelivery),
        ("strict_state_machine", bad.StrictStateMachine),
        ("reads_by_replay", bad.ReadsByReplay),
    ),
    *_unsafe(
        "double_delivery",
        ("delivers_each_sighting", bad.DeliversEachSighting),
        ("delivers_before_confirming_read", bad.DeliversBeforeConfirmingRead),
        ("delivers_before_receipt", bad.DeliversBeforeReceipt),
        ("two_workers", bad.TwoWorkers),
        ("queues_order_twice", bad.QueuesOrderTwice),
    ),
    *_unsafe(
        "double_payment key_not_reused",
        ("new_key_per_try", bad.NewKeyPerTry),
        ("key_with_timestamp", bad.KeyWithTimestamp),
        ("key_from_body", bad.KeyFromBody),
        ("two_keys", bad.TwoKeys),
    ),
    *_unsafe("double_payment", ("pays_again_after_failed_read", bad.PaysAgainAfterFailedRead)),
    *_unsafe("key_conflict lost_sale", ("changes_body", bad.ChangesBody)),
    *_lesser("key_conflict", ("changes_body_once", bad.ChangesBodyOnce)),
    *_lesser("polls_forever", ("polls_forever", bad.PollsForever)),
    *_lesser(
        "ignores_retry_after",
        ("ignores_retry_after", bad.IgnoresRetryAfter),
        ("polls_again_at_once", bad.PollsAgainAtOnce),
    ),
    *_lesser("gives_up", ("gives_up_when_refused", bad.GivesUpWhenRefused)),
]

SHOPS = {case.name: case for case in (*GOOD, *BAD)}
