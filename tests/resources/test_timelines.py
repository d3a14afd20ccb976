"""What is kept of payments is bounded, and never wrong."""

import msgspec

from paymock.app.catalog_file import load_catalog
from paymock.resources import payments, records, timelines
from paymock.resources.records import DepositRecord, EndpointRecord, PaymentRecord, SimulationRecord
from paymock.resources.timelines import PaymentTimelines
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)


def payment(token: str) -> PaymentRecord:
    creation = payments.Creation(token, b"fingerprint", "happy_path", NOON)
    return payments.accept(order(), creation, CATALOG, 100)


def test_a_course_shows_what_the_rules_show_at_every_age() -> None:
    record = payment("a" * 40)
    simulation = SimulationRecord(7, (DepositRecord("d", b"", record.token, 1000, "5", None),))
    kept = PaymentTimelines()
    for known in (None, records.encode(simulation)):
        course = kept.of(records.encode(record), known)
        assert course is not None
        for age in [*range(0, 50_000, 500), 0]:
            assert course.json_at(age) == msgspec.json.encode(payments.view(record, course.state_at(age)))


def test_many_payments_push_out_those_that_were_kept() -> None:
    kept = PaymentTimelines()
    stored = [records.encode(payment(f"{number:040d}")) for number in range(timelines.KEPT + 5)]
    first = kept.of(stored[0], None)
    assert kept.of(stored[0], None) is first
    for one in stored:
        assert kept.of(one, None)
    assert kept.of(stored[0], None) is not first


def test_an_endpoint_has_no_course() -> None:
    stored = records.encode(EndpointRecord("t", b"", NOON, "https://x.example", ["*"], None))
    assert PaymentTimelines().of(stored, None) is None
