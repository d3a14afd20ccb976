import tracemalloc

import msgspec
import pytest

from paymock.payments import creation as creations
from paymock.payments import records, views
from paymock.payments.files import load_catalog
from paymock.payments.records import DepositRecord, EndpointRecord, SimulationRecord
from paymock.payments.timelines import PaymentTimelines
from paymock.rules.scenarios import SCENARIOS, Scenario, Sending
from paymock.rules.timeline import state_at
from paymock.schemas.public import AttemptList
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)


def stored_payment(token: str, scenario: Scenario = SCENARIOS["happy_path"]) -> bytes:
    creation = creations.CreationContext(token, b"fingerprint", scenario, NOON)
    return records.encode(creations.create_record(order(), creation, CATALOG, 100))


HALVES = Scenario("two_halves", sending=(Sending(0, "1/2"), Sending(29.999, "1/2")))


@pytest.mark.parametrize("scenario", [SCENARIOS["happy_path"], HALVES], ids=lambda scenario: scenario.name)
def test_a_cached_timeline_equals_the_rules_at_every_age(scenario: Scenario) -> None:
    stored = stored_payment("a" * 40, scenario)
    simulation = SimulationRecord(7, (DepositRecord("d", b"", "a" * 40, 1000, "5", None),))
    cache = PaymentTimelines()
    for stored_simulation in (None, records.encode(SimulationRecord(7)), records.encode(simulation)):
        timeline = cache.get(stored, stored_simulation)
        assert timeline is not None
        expected = views.states(timeline.record, timeline.simulation)
        assert timeline.states == expected
        assert timeline.age(NOON + 1000) == 1007 - 7 * (stored_simulation is None)
        for age in [*range(0, 50_000, 500), 0]:
            state = timeline.state_at(age)
            assert state == state_at(expected, age)
            assert timeline.status_at(age) == state.status
            payment = views.view(timeline.record, state)
            rendered = timeline.rendered_at(age)
            assert rendered.json == msgspec.json.encode(payment)
            assert rendered.attempts_json == msgspec.json.encode(AttemptList(data=payment.attempts))
            assert (rendered.id, rendered.order_id) == (payment.id, "order-1001")
            assert (rendered.status, rendered.at) == (state.status, state.at)


def test_a_timeline_does_not_keep_the_states_of_a_course() -> None:
    many = tuple(Sending(second) for second in range(100))
    timeline = PaymentTimelines().get(stored_payment("a" * 40, Scenario("many", sending=many)), None)
    assert timeline is not None
    assert len(timeline.rendered_at(200_000).json) > 10_000
    tracemalloc.start()
    kept = timeline.with_simulation(SimulationRecord(7))
    assert kept.rendered_at(200_000).json
    size = tracemalloc.get_traced_memory()[0]
    tracemalloc.stop()
    assert size < 10_000


def test_an_endpoint_has_no_timeline() -> None:
    stored = records.encode(EndpointRecord("t", b"", NOON, "https://x.example", ["*"], None))
    assert PaymentTimelines().get(stored, None) is None
