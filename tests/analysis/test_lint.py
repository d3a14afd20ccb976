"""What is wrong with requests of an application, as warnings and as rules of the judge, and what is not."""

from collections.abc import Sequence
from functools import partial
from operator import methodcaller
from typing import Any, NamedTuple

import httpx
import pytest

from paymock.analysis.lint import LintWarning, lint
from paymock.client.sandbox import DEFAULT_PAYOUT_ADDRESS, payment_request
from paymock.testing import Sandbox
from paymock.verify.checks import check
from paymock.verify.order import Order
from tests.support.journal import ORDER, PAYMENT, JournalWriter, payment

OTHER = "pay_" + "b" * 40
MNEMONIC = "legal winner thank year wave sausage worth useful legal winner thank yellow"

Step = methodcaller
"""What a case does with its journal."""


creation = partial(methodcaller, "creation")
read = partial(methodcaller, "read")
wait = partial(methodcaller, "wait")

LOST = creation(status=0, fault="drop")
NEW_KEY = creation(payment_id=OTHER)
REFUSED = {"idempotency": None, "payment_id": None}
OF_ANOTHER = {"order_id": "order-2002"}
OVERLOADED = read(None, status=503)
CHAINS: dict[str, Any] = {"operation": "listChains", "payment_id": None, "order_id": None}
DAMAGED: list[tuple[dict[str, Any], str]] = [
    ({"status": 0, "fault": "drop"}, "was lost"),
    ({"status": 0, "fault": "delay=30000"}, "was lost"),
    ({"status": 502, "fault": "status=502; after"}, "was 502"),
    ({"status": 201, "fault": "truncate=10"}, "was damaged (truncate=10)"),
]


class Wrong(NamedTuple):
    """A course of requests, the numbers of those that are wrong from 1 on, and what is said of them."""

    rule: str
    numbers: Sequence[int]
    text: str
    steps: Sequence[Step]


WRONG = [
    *(
        Wrong("key_not_reused", [1, 2], f"creation {what}, ", [creation(**damage), wait(60), NEW_KEY])
        for damage, what in DAMAGED
    ),
    # sent before the first, and answered after it
    Wrong("key_not_reused", [2, 1], "retry with the key of the first try",
          [wait(1), NEW_KEY, wait(1), creation(status=0, fault="delay=1500; after", duration_ms=1500)]),
    Wrong("key_conflict", [2], "repeat the original body to retry",
          [creation(), creation("conflict", None, status=409, error="idempotency_key_reused")]),
    *(
        Wrong("ignores_retry_after", [1, 2],
              f"`getPayment` was repeated 0.5 s after a reply {status} with `Retry-After: 1`",
              [read(None, status=status), wait(0.25, 0.5), read()])
        for status in (429, 503)
    ),
    # the time until the reply is no pause
    Wrong("ignores_retry_after", [1, 2], "repeated 0.001 s after",
          [OVERLOADED, wait(2), read(duration_ms=2000.5, fault="delay=2000")]),
    Wrong("ignores_retry_after", [1, 4], "`createPayment` was repeated",
          [creation(**REFUSED, status=429), creation(**REFUSED, **OF_ANOTHER, status=429), read(),
           creation()]),
    Wrong("ignores_retry_after", [1, 2], "`listChains` was repeated",
          [read(None, status=503, **CHAINS), read(None, **CHAINS)]),
    Wrong("ignores_retry_after", [1, 2], "with `Retry-After: 7`",
          [read(None, status=500, fault="status=500; retry-after=7"), wait(6), read()]),
    # a journal of a server that kept no virtual times
    Wrong("ignores_retry_after", [1, 2], "0.5 s after",
          [read(None, status=503, virtual_at=None), wait(0.5), read(virtual_at=None)]),
    *(
        Wrong("polls_forever", [1, 2, 3, 4, 5, 6], f"5 more times after a reply had shown it as `{status}`",
              [*[read(status), wait(60)] * 5, read(None)])
        for status in ("completed", "failed", "manual_review", "underpaid_expired")
    ),
    Wrong("polls_forever", [1, 2, 3, 4, 5, 6], "stop polling at a final status",
          [read("completed", fault="delay=50; after", duration_ms=50), wait(1)] * 6),
]  # fmt: skip
TOO_OLD = [
    creation(),
    wait(virtual=24 * 3600),
    creation("replayed"),
    wait(virtual=0.001),
    creation("replayed"),
]
FROM_BROWSER = [read(fetch_site=site) for site in ("cross-site", "same-site", "same-origin", "none", None)]
TOO_OFTEN = [
    Wrong(
        "polls_too_often",
        range(2, count + 2),
        f"was read {count} times within a second",
        [read(), wait(5), *[read(), wait(interval, interval / 2)] * count, wait(5), read()],
    )
    for interval, count in ((0.01, 11), (0.09, 12))
]

RIGHT: dict[str, Sequence[Step]] = {
    "the same key": [LOST, wait(2), *[creation("replayed"), wait(1)] * 5, NEW_KEY],
    "a new key once the first payment is known": [creation(), NEW_KEY],
    "a new key after a request that was not carried out": [
        creation(**REFUSED, status=500, fault="status=500"),
        creation(),
    ],
    "another key of another order": [LOST, creation(payment_id=OTHER, **OF_ANOTHER)],
    "a pause in real time": [OVERLOADED, wait(1), read()],
    "a pause in virtual time": [OVERLOADED, wait(0.01, 3), read()],
    "nearly a pause, since a reply is recorded late": [OVERLOADED, wait(0.95), read()],
    "a pause as long as asked for, or a minute": [
        step
        for asked, pause in (("none", 0), ("0", 0), ("date", 1), ("7", 7), ("86400", 60))
        for step in (read(None, status=429, fault=f"status=429; retry-after={asked}"), wait(pause), read())
    ],
    "a request that was under way": [OVERLOADED, wait(0.5), read(duration_ms=700)],
    "a creation of another order": [
        creation(**REFUSED, status=429),
        creation(**REFUSED, **OF_ANOTHER, status=0),
        read(),
    ],
    **{
        f"requests that are about nothing known: {unknown}": [read(None, status=503, **unknown)] * 2
        for unknown in (
            {"operation": None},
            {"payment_id": None},
            {"operation": "createPayment", "order_id": None},
        )
    },
    **{
        f"at once after {status}, which asks for no pause": [read(None, status=status), read()]
        for status in (0, 500, 502, 201)
    },
    **{
        f"polling on, which was shown as {status}": [read(status), wait(0, 5)] * 9
        for status in ("expired", "settlement_submitted", None)
    },
    "four more reads of a completed payment": [read("completed"), wait(1)] * 5,
    "reads under way and replays, which are no polling": [
        read("completed", duration_ms=500),
        *[read("completed", duration_ms=400), creation("replayed")] * 6,
    ],
    **{
        f"ten reads a second: {real} s and {virtual} s of virtual time": [read(), wait(real, virtual)] * 50
        for real, virtual in ((0.1, 0.0), (0.0, 0.1), (60.0, 0.0))
    },
    "reads of five payments": [read(payment_id=f"pay_{number % 5}") for number in range(50)],
    "reads of no payment": [read(None, payment_id=None, status=404)] * 50,
}


def journal_of(steps: Sequence[Step]) -> JournalWriter:
    journal = JournalWriter()
    for step in steps:
        step(journal)
    return journal


def judged(journal: JournalWriter) -> list[tuple[str, str]]:
    """The rules that a trial with these requests breaks, whose application polls by itself."""
    calls = [0] * len(journal.entries)
    order = Order()
    order.traffic.entries, order.traffic.calls, order.traffic.payments = journal.structs, calls, [PAYMENT]
    order.history.reached, order.outcome.deliveries = {"completed"}, 1
    return [(violation.rule, violation.explanation) for violation in check(order, ["completed"])]


@pytest.mark.parametrize("case", [*WRONG, *TOO_OFTEN], ids=lambda case: f"{case.rule} {case.text}")
def test_what_is_wrong_is_named_with_its_requests(case: Wrong) -> None:
    [warning] = lint(journal_of(case.steps).entries)
    assert warning.rule == case.rule
    assert warning.request_ids == tuple(f"req_{number}" for number in case.numbers)
    assert case.text in warning.explanation


@pytest.mark.parametrize("case", WRONG, ids=lambda case: f"{case.rule} {case.text}")
def test_the_judge_says_the_same_of_a_trial(case: Wrong) -> None:
    journal = journal_of(case.steps)
    [warning] = lint(journal.entries)
    sentence = f"{warning.explanation[0].upper()}{warning.explanation[1:]}."
    assert judged(journal) == [(case.rule, sentence)]


@pytest.mark.parametrize("name", RIGHT)
def test_what_is_right_is_not_named(name: str) -> None:
    journal = journal_of(RIGHT[name])
    assert lint(journal.entries) == []
    assert judged(journal) == []


def test_the_judge_knows_the_pace_of_ticks_and_repeats_reads_that_failed() -> None:
    failed = [
        read("completed"),
        *[wait(1), read(None, status=500, fault="status=500")] * 6,
        read("completed"),
    ]
    for journal in (journal_of(TOO_OFTEN[0].steps), journal_of(failed)):
        assert len(lint(journal.entries)) == 1
        assert judged(journal) == []


def test_a_load_test_that_repeats_one_key_is_told_so_and_retries_are_not() -> None:
    [warning] = lint(journal_of([creation(), *[creation("replayed"), wait(1)] * 19]).entries)
    assert warning.rule == "key_repeated"
    assert "19 of 20 creations repeated one Idempotency-Key" in warning.explanation
    orders = [creation(payment_id=f"pay_{number}", order_id=f"order-{number}") for number in range(20)]
    lost = [creation("replayed", shown=None, status=0, fault="drop")] * 12
    assert not lint(journal_of([*orders, *[creation("replayed")] * 19, *lost]).entries)
    assert not lint(journal_of([LOST, *lost, creation("replayed")]).entries)


def test_every_retry_that_comes_at_once_is_named() -> None:
    warnings = lint(journal_of([OVERLOADED] * 3).entries)
    assert [warning.request_ids for warning in warnings] == [("req_1", "req_2"), ("req_2", "req_3")]


@pytest.mark.parametrize(
    ("steps", "about"),
    [
        ([LOST, NEW_KEY], (ORDER, OTHER)),
        ([creation(), creation("conflict", None, status=409)], (ORDER, None)),
        ([OVERLOADED, read()], (ORDER, PAYMENT)),
        ([read(None, status=503, **CHAINS), read(None, **CHAINS)], (None, None)),
        ([creation("conflict", None, status=409, order_id="sk_live_4eC39HqLyjWD")], ("***", None)),
    ],
)
def test_a_warning_names_order_and_payment(
    steps: Sequence[Step], about: tuple[str | None, str | None]
) -> None:
    [warning] = lint(journal_of(steps).entries)
    assert (warning.order_id, warning.payment_id) == about


@pytest.mark.parametrize(
    ("field", "fields", "kind"),
    [
        ("order_id", {"order_id": "order mk_test_demo"}, "an API key"),
        ("metadata.key", {"metadata": {"key": "sk_live_4eC39HqLyjWD"}}, "an API key"),
        ("metadata.hook", {"metadata": {"hook": "whsec_0a1b"}}, "an API key"),
        ("metadata.a.b[1]", {"metadata": {"a": {"b": [1, "rk_live_x"]}}}, "an API key"),
        ("metadata.h", {"metadata": {"h": "Authorization: Bearer 0a1b2c3d4e5f6a7b8"}}, "a bearer token"),
        ("metadata.t", {"metadata": {"t": "eyJhbGciOiJI.eyJzdWIiOiIx.c2lnbmF0dXJl"}}, "a bearer token"),
        ("order_id", {"order_id": "0x" + "a1" * 32}, "a private key"),
        ("metadata.wallet", {"metadata": {"wallet": "a1" * 32}}, "a private key"),
        ("metadata.pem", {"metadata": {"pem": "-----BEGIN EC PRIVATE KEY-----\nMHc"}}, "a private key"),
        ("metadata.words", {"metadata": {"words": MNEMONIC}}, "a mnemonic"),
        ("metadata.db", {"metadata": {"db": "postgres://shop:hunter2@db/x"}}, "a password in a URL"),
    ],
)
def test_a_secret_is_named_and_not_shown(field: str, fields: dict[str, Any], kind: str) -> None:
    [warning] = lint(journal_of([creation(), read()]).entries, [payment(OTHER), payment(**fields)])
    order_id = "***" if field == "order_id" else ORDER
    assert warning[:3] == ("secret_in_order", order_id, PAYMENT)
    assert warning.request_ids == ("req_1",)
    assert f"`{field}` holds what looks like {kind};" in warning.explanation


@pytest.mark.parametrize(
    "fields",
    [
        {"order_id": "a1" * 32},  # a digest
        {"metadata": {"cart_sha256": "a1" * 32, "tx": "0x" + "a1" * 32}},
        {"metadata": {"wallet": DEFAULT_PAYOUT_ADDRESS, "key": "pk_live_public", "count": 12}},
        {"metadata": {"shop": "https://shop.example/orders/1?by=a@b.example", "mail": "a@b.example"}},
        {"metadata": {"note": "Please leave the parcel at the back door, next to the bicycles"}},
        {"metadata": {"note": "bearer of good news"}},
    ],
)
def test_other_values_are_no_secrets(fields: dict[str, Any]) -> None:
    assert lint([], [payment(**fields)]) == []


def test_a_replay_after_24_hours_would_have_been_a_second_payment() -> None:
    journal = journal_of(TOO_OLD)
    assert lint(journal.entries) == []
    [warning] = lint(journal.entries, iter([payment(), payment(OTHER)]))
    assert (warning.rule, warning.request_ids, warning.payment_id) == ("key_too_old", ("req_3",), PAYMENT)
    assert "after more than 24 hours" in warning.explanation


def test_a_browser_on_a_page_of_another_server_has_the_key() -> None:
    [warning] = lint(journal_of(FROM_BROWSER).entries)
    assert (warning.rule, warning.request_ids) == ("key_in_browser", ("req_1", "req_2"))


def test_a_warning_is_one_line() -> None:
    ids = tuple(f"req_{number}" for number in range(1, 6))
    assert str(LintWarning("polls_forever", "a\nb", PAYMENT, "it is wrong", ids)) == (
        "polls_forever: order a\\nb: it is wrong (req_1, req_2, req_3 and 2 more)"
    )
    assert str(LintWarning("key_conflict", None, PAYMENT, "it is wrong", ids[:2])) == (
        f"key_conflict: {PAYMENT}: it is wrong (req_1, req_2)"
    )
    assert str(LintWarning("key_conflict", None, None, "it is wrong", ())) == "key_conflict: it is wrong"


def test_in_a_frozen_sandbox_an_advance_of_the_clock_is_a_pause(paymock: Sandbox) -> None:
    paymock.fault("status=503", times=2)
    body = payment_request(ORDER, "bsc", "USDT", "1000", DEFAULT_PAYOUT_ADDRESS)
    headers = {"Authorization": f"Bearer {paymock.api_key}", "Idempotency-Key": "order-1001-payment"}
    for _ in range(3):
        httpx.post(f"{paymock.url}/v1/payments", json=body, headers=headers)
        paymock.advance(1)
    assert lint(paymock.requests(), paymock.payments()) == []
