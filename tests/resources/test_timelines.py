"""The cache of timelines is bounded and equal to the rules."""

import msgspec

from paymock.app.catalog_file import load_catalog
from paymock.resources import payments, records, timelines
from paymock.resources.records import DepositRecord, EndpointRecord, PaymentRecord, SimulationRecord
from paymock.resources.timelines import PaymentTimeline, PaymentTimelines, json_at_creation
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)


def payment(token: str) -> PaymentRecord:
    creation = payments.Creation(token, b"fingerprint", "happy_path", NOON)
    return payments.create_record(order(), creation, CATALOG, 100)


def test_a_cached_timeline_equals_the_rules_at_every_age() -> None:
    record = payment("a" * 40)
    simulation = SimulationRecord(7, (DepositRecord("d", b"", record.token, 1000, "5", None),))
    cache = PaymentTimelines()
    for stored_simulation in (None, records.encode(simulation)):
        timeline = cache.get(records.encode(record), stored_simulation)
        assert timeline is not None
        for age in [*range(0, 50_000, 500), 0]:
            assert timeline.json_at(age) == msgspec.json.encode(payments.view(record, timeline.state_at(age)))


def test_the_initial_state_and_the_age_are_those_of_the_record() -> None:
    record = payment("a" * 40)
    timeline = PaymentTimeline(record, SimulationRecord(7))
    assert json_at_creation(record) == timeline.json_at(0)
    assert timeline.age(NOON + 1000) == 1007


def test_the_least_recently_used_timeline_is_evicted() -> None:
    cache = PaymentTimelines()
    stored = [records.encode(payment(f"{number:040d}")) for number in range(timelines.MAX_TIMELINES + 1)]
    first = cache.get(stored[0], None)
    assert cache.get(stored[0], None) is first
    for record in stored:
        assert cache.get(record, None)
    assert cache.get(stored[0], None) is not first


def test_an_endpoint_has_no_timeline() -> None:
    stored = records.encode(EndpointRecord("t", b"", NOON, "https://x.example", ["*"], None))
    assert PaymentTimelines().get(stored, None) is None
