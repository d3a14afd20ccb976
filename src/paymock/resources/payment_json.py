"""The JSON of payments that follow their scenarios, from templates.

`payments.view` defines the reply. Payments in the same state of the same scenario differ in a few values, so
the JSON of a sample is made once, and its values are replaced by those of each payment. Specification:
"Payment object".
"""

import re
from collections.abc import Sequence
from functools import cache, lru_cache
from operator import itemgetter

import msgspec
from msgspec.structs import replace

from paymock.resources import payments
from paymock.resources.records import PaymentRecord
from paymock.rules import identifiers
from paymock.rules.timeline import State, scenario_timeline
from paymock.rules.times import to_rfc3339
from paymock.schemas.public import (
    SETTLEMENT_MODE,
    CreatePayment,
    PayWithRequest,
    ReceiveRequest,
    SettlementRequest,
)

AT_CREATION = 0
"""The index of the state in which payments are created."""

_encode = msgspec.json.Encoder().encode


class PaymentTemplate:
    """The JSON of the payments in one state of a scenario."""

    def __init__(self, scenario: str, index: int) -> None:
        self._timeline, self._index = scenario_timeline(scenario), index
        sample = replace(_SAMPLE, scenario=scenario)
        state = self._state(sample)
        values = _values(sample, state)
        places = {value: place for place, value in reversed([*enumerate(values)]) if value != "0"}
        pattern = re.compile("|".join(map(re.escape, sorted(places, key=len, reverse=True))))
        json = _encode(payments.view(sample, state)).decode()
        self._get_values = itemgetter(*(places[value] for value in pattern.findall(json)))
        self._parts: list[str] = []
        for part in pattern.split(json):
            self._parts += [part, ""]

    def render(self, record: PaymentRecord) -> bytes:
        parts = self._parts.copy()
        parts[1:-1:2] = self._get_values(_values(record, self._state(record)))
        return "".join(parts).encode()

    def _state(self, record: PaymentRecord) -> State:
        return self._timeline.state(self._index, int(record.due), record.other_asset)


@cache
def payment_template(scenario: str, index: int) -> PaymentTemplate:
    """The template of payments in the state of `scenario` with this index."""
    return PaymentTemplate(scenario, index)


def _values(record: PaymentRecord, state: State) -> Sequence[str]:
    """What differs between payments in this state, as in their JSON."""
    token, request, created_at = record.token, record.request, record.created_at
    chain = request.receive.chain
    created = to_rfc3339(created_at)
    values = [
        _encode(
            replace(
                request,
                expires_at=request.expires_at or payments.default_expiry(created_at),
                metadata=request.metadata or {},
            )
        )[1:-1].decode(),
        token,
        created,
        to_rfc3339(created_at + state.at) if state.at else created,
        identifiers.attempt_id(token),
        _route(chain, request.receive.asset),
        identifiers.invoice_address(token),
        record.due,
        request.receive.amount,
        record.fee,
    ]
    if state.deposits:
        finalized = state.received_finalized
        values += (
            str(state.received_pending),
            str(finalized),
            str(finalized - int(record.due)),
            identifiers.sender_address(token),
        )
        for number, deposit in enumerate(state.deposits):
            transfer = deposit.transfer
            values += (
                identifiers.deposit_id(token, number),
                _route(chain, transfer.other_asset or request.receive.asset),
                str(transfer.amount),
                identifiers.transaction_hash(token, number),
                to_rfc3339(created_at + transfer.at),
            )
    return values


@lru_cache(maxsize=1024)  # all chains and assets of a catalog
def _route(chain: str, asset: str) -> str:
    return _encode(PayWithRequest(chain=chain, asset=asset))[1:-1].decode()


_SAMPLE = PaymentRecord(
    token="sample".ljust(40, "7"),
    fingerprint=b"",
    created_at=1_234_567_890_123,
    scenario="",
    request=CreatePayment(
        order_id="sample order",
        receive=ReceiveRequest(
            chain="sample chain",
            asset="sample asset",
            amount="70000000000000000003",
            address="sample address",
        ),
        settlement=SettlementRequest(mode=SETTLEMENT_MODE),
        pay_with=[PayWithRequest(chain="sample chain", asset="sample asset")],
    ),
    due="71111111111111111117",
    fee="1111111111111111114",
    other_asset="other sample asset",
)
"""Its values are unlike each other, and unlike what is the same in the JSON of all payments."""
