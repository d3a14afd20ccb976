"""What is kept of payments is bounded, and never wrong."""

import msgspec

from paymock.catalog_file import load_catalog
from paymock.core import courses, payments, records
from paymock.core.courses import Courses
from paymock.core.records import DepositRecord, EndpointRecord, PaymentRecord, SimulationRecord
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)


def payment(token: str) -> PaymentRecord:
    creation = payments.Creation(token, b"fingerprint", "happy_path", NOON)
    return payments.accept(order(), creation, CATALOG, 100)


def test_a_course_shows_what_the_rules_show_at_every_age() -> None:
    record = payment("a" * 40)
    simulation = SimulationRecord(7, (DepositRecord("d", b"", record.token, 1000, "5", None),))
    kept = Courses()
    for known in (None, records.encode(simulation)):
        course = kept.of(records.encode(record), known)
        assert course is not None
        for age in [*range(0, 50_000, 500), 0]:
            assert course.json_at(age) == msgspec.json.encode(payments.view(record, course.state_at(age)))


def test_many_payments_push_out_those_that_were_kept() -> None:
    kept = Courses()
    stored = [records.encode(payment(f"{number:040d}")) for number in range(courses.KEPT + 5)]
    first = kept.of(stored[0], None)
    assert kept.of(stored[0], None) is first
    for one in stored:
        assert kept.of(one, None)
    assert kept.of(stored[0], None) is not first


def test_an_endpoint_has_no_course() -> None:
    stored = records.encode(EndpointRecord("t", b"", NOON, "https://x.example", ["*"], None))
    assert Courses().of(stored, None) is None
