"""What is wrong with the requests of an application, and what is not."""

from typing import Any

import httpx
import pytest

from paymock.client.http import DEFAULT_PAYOUT_ADDRESS, payment_request
from paymock.testing import Sandbox
from paymock.verify.lint import LintWarning, lint
from tests.support.journal import ORDER, PAYMENT, JournalWriter, payment

OTHER = "pay_" + "b" * 40
MNEMONIC = "legal winner thank year wave sausage worth useful legal winner thank yellow"


@pytest.fixture
def journal() -> JournalWriter:
    return JournalWriter()


def found(journal: JournalWriter) -> list[tuple[str, tuple[str, ...]]]:
    """The rules, and the requests that broke them."""
    return [(warning.rule, warning.request_ids) for warning in lint(journal.entries)]


class TestKeyNotReused:
    @pytest.mark.parametrize(
        ("damage", "what"),
        [
            ({"status": 0, "fault": "drop"}, "was lost"),
            ({"status": 0, "fault": "delay=30000"}, "was lost"),
            ({"status": 502, "fault": "status=502; after"}, "was 502"),
            ({"status": 201, "fault": "truncate=10"}, "was damaged (truncate=10)"),
        ],
    )
    def test_a_new_key_after_a_lost_reply_makes_a_second_payment(
        self, journal: JournalWriter, damage: dict[str, Any], what: str
    ) -> None:
        first = journal.creation(**damage)
        journal.wait(60)
        second = journal.creation(payment_id=OTHER)
        [warning] = lint(journal.entries)
        assert warning[:3] == ("key_not_reused", ORDER, OTHER)
        assert warning.request_ids == (first, second)
        assert f"the reply to a creation {what}, " in warning.explanation
        assert "retry with the key of the first try" in warning.explanation

    def test_the_order_of_the_requests_is_that_in_which_they_were_sent(self, journal: JournalWriter) -> None:
        journal.wait(1)
        second = journal.creation(payment_id=OTHER)
        journal.wait(1)
        first = journal.creation(status=0, fault="delay=1500; after", duration_ms=1500)
        assert found(journal) == [("key_not_reused", (first, second))]

    def test_the_same_key_is_right(self, journal: JournalWriter) -> None:
        journal.creation(status=0, fault="drop")
        journal.wait(1)
        journal.creation("replayed")
        journal.wait(1)
        journal.creation(payment_id=OTHER)  # the customer orders again
        assert found(journal) == []

    def test_a_new_key_is_right_once_the_first_payment_is_known(self, journal: JournalWriter) -> None:
        journal.creation()
        journal.creation(payment_id=OTHER)
        assert found(journal) == []

    def test_what_was_not_carried_out_has_no_key(self, journal: JournalWriter) -> None:
        journal.creation(None, None, status=500, fault="status=500")
        journal.creation()
        assert found(journal) == []

    def test_another_order_has_another_key(self, journal: JournalWriter) -> None:
        journal.creation(status=0, fault="drop")
        journal.creation(payment_id=OTHER, order_id="order-2002")
        assert found(journal) == []


def test_a_key_with_another_body_is_a_conflict(journal: JournalWriter) -> None:
    journal.creation()
    conflict = journal.creation("conflict", None, status=409, error="idempotency_key_reused")
    [warning] = lint(journal.entries)
    assert warning[:3] == ("key_conflict", ORDER, None)
    assert warning.request_ids == (conflict,)
    assert "repeat the original body to retry" in warning.explanation


class TestIgnoresRetryAfter:
    @pytest.mark.parametrize("status", [429, 503])
    def test_a_retry_must_not_come_at_once(self, journal: JournalWriter, status: int) -> None:
        first = journal.read(None, status=status)
        journal.wait(0.25, 0.5)
        second = journal.read()
        [warning] = lint(journal.entries)
        assert warning[:3] == ("ignores_retry_after", ORDER, PAYMENT)
        assert warning.request_ids == (first, second)
        assert f"0.5 s after a reply {status} with `Retry-After: 1`" in warning.explanation

    @pytest.mark.parametrize(
        "time", [{"real": 1}, {"virtual": 1}, {"real": 0.95}, {"real": 0.01, "virtual": 3}]
    )
    def test_real_or_virtual_time_is_a_pause(self, journal: JournalWriter, time: dict[str, float]) -> None:
        journal.read(None, status=503)
        journal.wait(**time)
        journal.read()
        assert found(journal) == []

    def test_a_journal_without_virtual_times_has_real_ones(self, journal: JournalWriter) -> None:
        first = journal.read(None, status=503, virtual_at=None)
        journal.wait(0.5)
        second = journal.read()
        del journal.oldest_first[1]["virtual_at"]
        assert found(journal) == [("ignores_retry_after", (first, second))]

    def test_every_retry_counts(self, journal: JournalWriter) -> None:
        requests = [journal.read(None, status=503) for _ in range(3)]
        assert found(journal) == [
            ("ignores_retry_after", (requests[0], requests[1])),
            ("ignores_retry_after", (requests[1], requests[2])),
        ]

    def test_the_time_until_the_reply_is_no_pause(self, journal: JournalWriter) -> None:
        first = journal.read(None, status=503)
        journal.wait(2)
        second = journal.read(duration_ms=2000.5, fault="delay=2000")
        assert found(journal) == [("ignores_retry_after", (first, second))]

    def test_a_request_under_way_is_no_retry(self, journal: JournalWriter) -> None:
        journal.read(None, status=503)
        journal.wait(0.5)
        journal.read(duration_ms=700)
        assert found(journal) == []

    @pytest.mark.parametrize("status", [0, 429])
    def test_creations_are_those_of_one_order(self, journal: JournalWriter, status: int) -> None:
        journal.creation(None, None, status=429)
        journal.creation(None, None, status=status, order_id="order-2002")
        journal.read()
        assert found(journal) == []
        journal.creation()
        assert [rule for rule, _ in found(journal)] == ["ignores_retry_after"]

    @pytest.mark.parametrize(
        "unknown",
        [{"operation": None}, {"payment_id": None}, {"operation": "createPayment", "order_id": None}],
    )
    def test_what_is_about_nothing_known_is_not_compared(
        self, journal: JournalWriter, unknown: dict[str, Any]
    ) -> None:
        journal.read(None, status=503, **unknown)
        journal.read(None, status=503, **unknown)
        assert found(journal) == []

    def test_other_operations_count_too(self, journal: JournalWriter) -> None:
        about_nothing = {"operation": "listChains", "payment_id": None, "order_id": None}
        first = journal.read(None, status=503, **about_nothing)
        second = journal.read(None, **about_nothing)
        [warning] = lint(journal.entries)
        assert warning == ("ignores_retry_after", None, None, warning.explanation, (first, second))

    @pytest.mark.parametrize("status", [0, 500, 502, 201])
    def test_other_replies_ask_for_no_pause(self, journal: JournalWriter, status: int) -> None:
        journal.read(None, status=status)
        journal.read()
        assert found(journal) == []


class TestPollsForever:
    @pytest.mark.parametrize("status", ["completed", "failed", "manual_review", "underpaid_expired"])
    def test_a_terminal_status_ends_polling(self, journal: JournalWriter, status: str) -> None:
        requests = []
        for number in range(6):
            requests.append(journal.read(status if number != 2 else None))
            journal.wait(60)
            assert found(journal) == ([] if number < 5 else [("polls_forever", tuple(requests))])
        [warning] = lint(journal.entries)
        assert warning[:3] == ("polls_forever", ORDER, PAYMENT)
        assert f"5 more times after a reply had shown it as `{status}`" in warning.explanation

    @pytest.mark.parametrize("status", ["expired", "settlement_submitted", None])
    def test_other_statuses_can_change(self, journal: JournalWriter, status: str | None) -> None:
        for _ in range(9):
            journal.read(status)
            journal.wait(virtual=5)
        assert found(journal) == []

    def test_reads_under_way_and_creations_do_not_count(self, journal: JournalWriter) -> None:
        journal.read("completed", duration_ms=500)
        for _ in range(6):
            journal.read("completed", duration_ms=400)
            journal.creation("replayed")
        assert found(journal) == []


class TestPollsTooOften:
    @pytest.mark.parametrize(("interval", "reads"), [(0.01, 11), (0.09, 12)])
    def test_more_than_ten_reads_a_second_are_too_many(
        self, journal: JournalWriter, interval: float, reads: int
    ) -> None:
        journal.read()
        journal.wait(5)
        requests = []
        for _ in range(reads):
            requests.append(journal.read())
            journal.wait(interval, interval / 2)
        [warning] = lint(journal.entries)
        assert warning[:3] == ("polls_too_often", ORDER, PAYMENT)
        assert f"was read {reads} times within a second" in warning.explanation
        assert warning.request_ids == tuple(requests)

    @pytest.mark.parametrize("time", [{"real": 0.1}, {"virtual": 0.1}, {"real": 60}])
    def test_ten_are_not(self, journal: JournalWriter, time: dict[str, float]) -> None:
        for _ in range(50):
            journal.read()
            journal.wait(**time)
        assert found(journal) == []

    def test_each_payment_has_reads_of_its_own(self, journal: JournalWriter) -> None:
        for number in range(50):
            journal.read(payment_id="pay_" + f"{number % 5}" * 40)
            journal.read(None, payment_id=None, status=404)
        assert found(journal) == []


class TestSecretInOrder:
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
    def test_a_secret_is_named_and_not_shown(
        self, journal: JournalWriter, field: str, fields: dict[str, Any], kind: str
    ) -> None:
        creation = journal.creation()
        journal.read()
        [warning] = lint(journal.entries, [payment(OTHER), payment(**fields)])
        assert (warning.rule, warning.payment_id) == ("secret_in_order", PAYMENT)
        assert warning.request_ids == (creation,)
        assert f"`{field}` holds what looks like {kind};" in warning.explanation
        assert warning.order_id == ("***" if field == "order_id" else ORDER)

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
    def test_other_values_are_none(self, journal: JournalWriter, fields: dict[str, Any]) -> None:
        assert lint(journal.entries, [payment(**fields)]) == []

    def test_other_warnings_do_not_show_it_either(self, journal: JournalWriter) -> None:
        journal.creation("conflict", None, status=409, order_id="sk_live_4eC39HqLyjWD")
        [warning] = lint(journal.entries)
        assert warning.order_id == "***"


def test_a_warning_is_one_line() -> None:
    ids = tuple(f"req_{number}" for number in range(1, 6))
    assert str(LintWarning("polls_forever", "a\nb", PAYMENT, "it is wrong", ids)) == (
        "polls_forever: order a\\nb: it is wrong (req_1, req_2, req_3 and 2 more)"
    )
    assert str(LintWarning("key_conflict", None, PAYMENT, "it is wrong", ids[:2])) == (
        f"key_conflict: {PAYMENT}: it is wrong (req_1, req_2)"
    )
    assert str(LintWarning("key_conflict", None, None, "it is wrong", ())) == "key_conflict: it is wrong"


@pytest.mark.parametrize(("pause", "warned"), [(0.001, True), (1, False)])
def test_in_a_frozen_sandbox_a_sleep_advances_the_clock(
    paymock: Sandbox, pause: float, *, warned: bool
) -> None:
    paymock.fault("status=503", times=2)
    body = payment_request(ORDER, "bsc", "USDT", "1000", DEFAULT_PAYOUT_ADDRESS)
    headers = {"Authorization": f"Bearer {paymock.api_key}", "Idempotency-Key": "order-1001-payment"}
    for _ in range(3):
        httpx.post(f"{paymock.url}/v1/payments", json=body, headers=headers)
        paymock.advance(pause)
    rules = [warning.rule for warning in lint(paymock.requests(), paymock.payments())]
    assert rules == ["ignores_retry_after"] * 2 * warned
