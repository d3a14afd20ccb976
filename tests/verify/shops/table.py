"""The shops that prove `paymock verify`: what it has to say of each.

Money rules make the verdict UNSAFE: `free_goods`, `lost_sale`, `double_delivery`, `double_payment`,
`lost_order`, `stays_down`. The other rules are lesser: with them alone, the verdict is SAFE, and the finding
is there.
"""

from functools import partial
from typing import Any, NamedTuple

from tests.verify.shops import bad, durable, good
from tests.verify.shops.base import Shop


class Case(NamedTuple):
    """A shop, and the rules that must be among the findings of its trials; none for a good one. `scenarios`:
    those that it is judged in; None: all. A bug must be found in those that show it. `served`: it is
    judged by the command only, as a process of its own (see serve.py), with these `options` of the command.
    `at_once`: the judge may place an order several times at once. `causes`: patterns of the tokens of all
    findings about money, in any order, each of which names what has broken a rule.
    """

    name: str
    shop: type[Shop]
    verdict: str = "SAFE"
    rules: frozenset[str] = frozenset()
    fulfil_at: tuple[str, ...] = ("completed",)
    scenarios: tuple[str, ...] | None = None
    served: bool = False
    options: tuple[str, ...] = ()
    at_once: bool = False
    causes: tuple[str, ...] = ()


Row = tuple[str, type[Shop], *tuple[str, ...]]


def _with_bug(verdict: str, rules: str, *shops: Row, **fields: Any) -> list[Case]:
    """Shops with one bug, each with the scenarios that show it beside the happy path."""
    return [
        Case(name, shop, verdict, frozenset(rules.split()), scenarios=("happy_path", *scenarios), **fields)
        for name, shop, *scenarios in shops
    ]


_unsafe = partial(_with_bug, "UNSAFE")
_lesser = partial(_with_bug, "SAFE")
_right = partial(_with_bug, "SAFE", "")

AT_ONCE: dict[str, Any] = {"at_once": True}
SERVED: dict[str, Any] = {"served": True}
CRASH: dict[str, Any] = {"served": True, "options": ("--crash",)}
REPLICAS: dict[str, Any] = {"served": True, "options": ("--replicas", "2")}
BY_CHANCE: dict[str, Any] = {"causes": (r"\*/orders=\d+x",)}
LATE_MONEY: dict[str, Any] = {"fulfil_at": ("completed", "manual_review")}
OVERPAID: dict[str, Any] = {"fulfil_at": ("completed", "overpaid_review")}

GOOD = [
    Case("poller", good.Poller),
    Case("welcomes_customer", good.WelcomesCustomer),
    Case("retrying_client", good.RetryingClient),
    Case("worker", good.Worker),
    Case("thread_per_order", good.ThreadPerOrder),
    Case("outbox", good.Outbox),
    Case("attempt_reader", good.AttemptReader),
    Case("fulfilment_table", good.FulfilmentTable),
    Case("catalog", good.Catalog),
    Case("early_delivery", good.EarlyDelivery, fulfil_at=("payment_finalized",)),
    *_right(("takes_overpaid", bad.paid_at("completed", "overpaid_review"), "overpaid_review"), **OVERPAID),
    *_right(("takes_late_money", good.TakesLateMoney, "no_payment_expired", "late_payment"), **LATE_MONEY),
    *_right(
        ("renews", good.Renews, "no_payment_expired", "late_payment"),
        ("three_items", good.ThreeItems),
        ("two_readers", good.TwoReaders),
        ("breaker", good.Breaker),
        ("supervised_loop", good.SupervisedLoop),
        ("backoff", good.Backoff),
    ),
    *_right(("key_from_order_id", good.KeyFromOrderId), **AT_ONCE),
    *_right(("starts_again", durable.StartsAgain), **SERVED),
    *_right(("one_transaction", durable.OneTransaction), ("lease", durable.Lease), **CRASH),
    *_right(("keyed_warehouse", durable.KeyedWarehouse), **REPLICAS),
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
        ("forgives_dust", bad.ForgivesDust),
        ("delivers_when_service_is_down", bad.DeliversWhenServiceIsDown, "no_payment_expired"),
        ("delivers_unknown_replies", bad.DeliversUnknownReplies, "no_payment_expired"),
    ),
    *_unsafe(
        "free_goods",
        ("takes_any_success", bad.TakesAnySuccess),
        causes=(r".*/getPayment@.*=status=200\+html",),
    ),
    *_unsafe(
        "free_goods",
        ("delivers_on_return", bad.DeliversOnReturn, "no_payment_expired"),
        ("mixes_up_replies", bad.MixesUpReplies, "no_payment_expired"),
    ),
    *_unsafe(
        "lost_sale",
        ("gives_up_after_reads", bad.GivesUpAfterReads),
        ("gives_up_by_the_clock", bad.GivesUpByTheClock),
    ),
    *_unsafe("free_goods", ("releases_customer", bad.ReleasesCustomer, "no_payment_expired"), **BY_CHANCE),
    *_unsafe("lost_sale", ("loses_every_eighth", bad.LosesEveryEighth), **BY_CHANCE),
    *_unsafe("lost_sale", ("skips_items", bad.SkipsItems), causes=(r"happy_path/getPayment@45#[234]=.*",)),
    *_unsafe(
        "lost_sale", ("last_reply_wins", bad.LastReplyWins), causes=("happy_path/getPayment@[0-9]+=hold",)
    ),
    *_unsafe(
        "lost_sale",
        ("cancels_with_newest", bad.CancelsWithNewest, "no_payment_expired"),
        **LATE_MONEY,
        causes=("no_payment_expired/renewal=late",),
    ),
    *_unsafe("lost_sale", ("drops_rest_of_round", bad.DropsRestOfRound)),
    *_unsafe(
        "lost_sale",
        ("drops_after_failed_poll", bad.DropsAfterFailedPoll),
        ("drops_after_three_failures", bad.DropsAfterThreeFailures),
        ("drops_when_too_fast", bad.DropsWhenTooFast),
        ("drops_when_unauthorized", bad.DropsWhenUnauthorized),
        ("drops_when_not_found", bad.DropsWhenNotFound),
        ("breaker_stays_open", bad.BreakerStaysOpen),
        ("drops_on_timeout", bad.DropsOnTimeout),
        ("drops_on_truncated_reply", bad.DropsOnTruncatedReply),
        ("forgets_unanswered_order", bad.ForgetsUnansweredOrder),
        ("refuses_to_order_again", bad.RefusesToOrderAgain),
        ("closes_before_delivery", bad.ClosesBeforeDelivery),
    ),
    *_unsafe(
        "double_delivery",
        ("delivers_each_sighting", bad.DeliversEachSighting),
        ("delivers_before_confirming_read", bad.DeliversBeforeConfirmingRead),
    ),
    *_unsafe("double_payment key_not_reused", ("new_key_per_try", bad.NewKeyPerTry)),
    *_unsafe("double_payment", ("pays_again_after_failed_read", bad.PaysAgainAfterFailedRead)),
    *_unsafe("key_conflict lost_sale", ("changes_body", bad.ChangesBody)),
    *_unsafe("key_conflict lost_order", ("key_per_customer", bad.KeyPerCustomer)),
    *_unsafe(
        "double_payment",
        ("checks_then_creates", bad.ChecksThenCreates),
        **AT_ONCE,
        causes=("happy_path/order=3x",),
    ),
    *_unsafe(
        "double_payment",
        ("looks_for_payment", bad.LooksForPayment),
        **AT_ONCE,
        causes=("happy_path/order=3x", r"(happy_path/createPayment|\*/outage)=.*"),
    ),
    *_unsafe(
        "lost_sale", ("polling_loop_dies", bad.PollingLoopDies), **AT_ONCE, causes=(r".*(outage|getP).*",)
    ),
    *_unsafe("lost_sale", ("ends_for_good", durable.EndsForGood), **SERVED),
    *_unsafe(
        "lost_sale",
        ("only_in_memory", durable.OnlyInMemory),
        ("records_then_delivers", durable.RecordsThenDelivers),
        ("lease_never_ends", durable.LeaseNeverEnds),
        **CRASH,
    ),
    *_unsafe(
        "double_payment",
        ("key_in_memory", durable.KeyInMemory),
        ("records_after_creation", durable.RecordsAfterCreation),
        **CRASH,
    ),
    *_unsafe("double_delivery", ("delivers_then_records", durable.DeliversThenRecords), **CRASH),
    *_unsafe("lost_order", ("acknowledges_first", durable.AcknowledgesFirst), **CRASH),
    *_unsafe("stays_down", ("stays_down", durable.StaysDown), **CRASH),
    *_unsafe("double_delivery", ("checks_then_ships", durable.ChecksThenShips), **REPLICAS),
    *_unsafe("double_payment", ("lock_per_process", durable.LockPerProcess), **REPLICAS),
    *_lesser("late_money_unseen", ("forgets_expired", bad.ForgetsExpired, "late_payment")),
    *_lesser("polls_forever", ("polls_forever", bad.PollsForever)),
    *_lesser(
        "ignores_retry_after",
        ("ignores_retry_after", bad.IgnoresRetryAfter),
        ("polls_again_at_once", bad.PollsAgainAtOnce),
    ),
    *_lesser("breaks_on_new_values", ("knows_all_statuses", bad.KnowsAllStatuses)),
    *_lesser("breaks_on_new_fields", ("decodes_strictly", bad.DecodesStrictly)),
]

SHOPS = {case.name: case for case in (*GOOD, *BAD)}
