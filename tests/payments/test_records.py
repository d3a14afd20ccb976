from typing import Any

import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.payments.records import (
    DepositRecord,
    EndpointRecord,
    Override,
    PaymentHead,
    PaymentRecord,
    SandboxRecord,
    SimulationRecord,
    decode,
    decode_as,
    encode,
)
from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.rules.faults import FaultRule
from paymock.rules.scenarios import Scenario, Sending, scenario_of, stored_scenario
from tests.support.client import order
from tests.support.courses import COURSES

FULL = order(
    refund_to={"chain": "bsc", "address": "0xfB6916095ca1df60bB79Ce92cE3Ea74c37c5d359"},
    expires_at="2999-01-01T00:00:00Z",
    metadata={"customer_id": "c_1", "items": [1, {"price": 2.5}]},
)
STORED = st.none() | COURSES.map(stored_scenario)
TEXT, TIMES = st.text(max_size=9), st.integers(0, 2**53)
DEPOSITS = st.builds(DepositRecord, TEXT, st.binary(max_size=9), TEXT, TIMES, TEXT, st.none() | TEXT)
OVERRIDES = st.lists(st.builds(Override, TEXT, st.none() | TIMES, STORED), max_size=3).map(tuple)
ENDPOINTS = st.builds(
    EndpointRecord, TEXT, st.binary(max_size=9), TIMES, TEXT, st.lists(TEXT, max_size=3), st.none() | TEXT
)
PAYMENTS = st.builds(
    PaymentRecord,
    *(TEXT, st.binary(max_size=9), TIMES, *[TEXT] * 6),
    st.none() | st.tuples(TEXT, TEXT),
    st.none() | TEXT,
    st.none() | st.dictionaries(TEXT, st.recursive(TEXT, st.lists), max_size=2),
    *(TEXT, TEXT, TEXT, STORED),
)
CHANGED = st.builds(SimulationRecord, TIMES, st.lists(DEPOSITS, max_size=3).map(tuple)) | st.builds(
    SandboxRecord,
    TIMES,
    st.none() | st.builds(ClockSetting, TIMES, TIMES, st.floats(0, 10_000), st.floats(0, 10_000)),
    OVERRIDES,
)


@given(DEPOSITS | ENDPOINTS | PAYMENTS)
def test_a_created_resource_is_decoded_as_it_was_encoded(record: Any) -> None:
    assert decode(encode(record)) == record


@given(PAYMENTS)
def test_the_head_of_a_payment_is_decoded_alone(record: PaymentRecord) -> None:
    head = decode_as(PaymentHead, encode(record))
    assert (head.token, head.scenario) == (record.token, record.scenario)
    assert head.order_id == record.order_id


@given(CHANGED)
def test_a_record_of_changes_is_decoded_as_it_was_encoded(record: Any) -> None:
    assert decode_as(type(record), encode(record)) == record


def test_a_course_of_an_earlier_format_is_decoded() -> None:
    """Its shares had no `least_excess`."""
    stored = msgspec.msgpack.encode(
        ["mine", None, ["mine", "", [[5_000, [1, 2, "3"], False]], True, False], None]
    )
    override = decode_as(Override, stored)
    assert scenario_of(override.value, override.custom_scenario) == Scenario(
        "mine", sending=(Sending(5, "1/2", 3),)
    )


def test_faults_of_the_next_creations_which_0_3_stored_are_dropped() -> None:
    stored = b"\x96\x00\xc0\x91\x94\xaclate_payment\x01\xc0\xc0\x91\x94\xa4drop\x01\xc0\xc0\x90\x00"
    record = decode_as(SandboxRecord, stored)
    assert record == SandboxRecord(scenarios=(Override("late_payment", 1),))
    scenario = b"\x96\xaclate_payment\x01\xc0\xc0\xc0\xc0"
    assert encode(record) == b"\x96\x00\xc0\x91" + scenario + b"\x90\x90\x00"


@given(COURSES)
def test_a_custom_scenario_is_read_as_it_was_stored(scenario: Scenario) -> None:
    assert scenario_of(scenario.name, stored_scenario(scenario)) == scenario


def test_the_form_of_a_custom_scenario_in_existing_stores_is_kept() -> None:
    sending = (Sending(10.5, "1/2", "1"), Sending(0, least_excess="2", other_asset=True))
    stored = stored_scenario(
        Scenario("mine", "mine", payout_succeeds=False, review_hold=True, sending=sending)
    )
    assert msgspec.msgpack.decode(msgspec.msgpack.encode(stored)) == [
        *["mine", "mine", [[10_500, [1, 2, "1", None], False], [0, [1, 1, "0", "2"], True]]],
        *[False, True],
    ]


@pytest.mark.parametrize("record_type", [SimulationRecord, SandboxRecord])
def test_where_nothing_is_stored_nothing_was_changed(record_type: type[Any]) -> None:
    assert decode_as(record_type, None) == record_type()


@pytest.mark.parametrize(
    ("record", "stored"),
    [
        (
            PaymentRecord(
                "token",
                b"\1",
                9,
                "happy_path",
                FULL["order_id"],
                **FULL["receive"],
                refund_to=tuple(FULL["refund_to"].values()),
                expires_at=FULL["expires_at"],
                metadata=FULL["metadata"],
                due="101",
                fee="1",
                other_asset="USDC",
            ),
            [
                *["payment", "token", b"\1", 9, "happy_path", FULL["order_id"]],
                *FULL["receive"].values(),
                [*FULL["refund_to"].values()],
                *[FULL["expires_at"], FULL["metadata"], "101", "1", "USDC", None],
            ],
        ),
        (
            DepositRecord("token", b"\1", "payment", 5_000, "7", None),
            ["deposit", "token", b"\1", "payment", 5_000, "7", None],
        ),
        (
            EndpointRecord("token", b"\1", 9, "https://merchant.example", ["*"], "note"),
            ["endpoint", "token", b"\1", 9, "https://merchant.example", ["*"], "note"],
        ),
        (
            SandboxRecord(
                1,
                ClockSetting(2, 3, 4.0),
                (Override("late_payment", None),),
                rules=(FaultRule("flt_1", "drop"),),
                rules_made=2,
            ),
            [
                *[1, [2, 3, 4.0, 0], [["late_payment", *[None] * 5]], []],
                [["flt_1", "drop", None, None, None, 0, 1, 0, 0, {}, None]],
                2,
            ],
        ),
    ],
)
def test_the_order_of_fields_in_existing_stores_is_kept(record: msgspec.Struct, stored: list[Any]) -> None:
    assert msgspec.msgpack.decode(encode(record)) == stored


def test_another_record_is_no_payment() -> None:
    for record_type in (PaymentRecord, PaymentHead):
        with pytest.raises(PaymockError) as caught:
            decode_as(record_type, encode(EndpointRecord("t", b"", 9, "https://merchant.example", [], None)))
        assert caught.value.kind.code == "store_unavailable"


@pytest.mark.parametrize("damaged", [b"", b"\xff", b"\x93\xa7payment", b"\x91\xa7refunds", "text", 1])
def test_a_damaged_record_is_a_failure_of_the_store(damaged: Any) -> None:
    for read in (decode, lambda stored: decode_as(SandboxRecord, stored)):
        with pytest.raises(PaymockError) as caught:
            read(damaged)
        assert caught.value.kind.code == "store_unavailable"
