"""The JSON from templates is that of the reply which `payments.view` defines."""

import msgspec
from hypothesis import example, given
from hypothesis import strategies as st

from paymock.app.catalog_file import load_catalog
from paymock.resources import payments
from paymock.resources.payment_json import payment_template
from paymock.rules.amounts import MAX_RAW
from paymock.rules.scenarios import SCENARIOS
from tests.support.client import order
from tests.support.clock import NOON

CATALOG = load_catalog(None)
ROUTES = [(chain, asset) for chain in CATALOG.chains for asset in CATALOG.assets(chain) or ()]
TEXTS = st.text(st.characters(categories=("L", "N", "P", "S", "Zs")), min_size=1, max_size=64)


@given(
    token=st.text("abcdefghijklmnopqrstuvwxyz234567", min_size=40, max_size=40),
    order_id=TEXTS,
    amount=st.integers(1, MAX_RAW // 3),
    route=st.sampled_from(ROUTES),
    metadata=st.none() | st.dictionaries(TEXTS, TEXTS, max_size=3),
    expires_at=st.sampled_from([None, "2040-01-31T12:00:00+01:00"]),
    created_at=st.integers(NOON, NOON + 10**10),
)
@example("sample".ljust(40, "7"), "sample order", 1, ("bsc", "USDT"), None, None, NOON)
@example("a" * 40, '"attempts":[{"%s"}]', 2, ("bsc", "USDT"), {"attempts": '"attempts":'}, None, NOON)
def test_every_payment_in_every_state_of_every_scenario_has_the_json_of_its_view(
    token: str,
    order_id: str,
    amount: int,
    route: tuple[str, str],
    metadata: dict[str, str] | None,
    expires_at: str | None,
    created_at: int,
) -> None:
    chain, asset = route
    body = order(
        order_id=order_id,
        receive__chain=chain,
        receive__asset=asset,
        receive__amount=str(amount),
        pay_with=[{"chain": chain, "asset": asset}],
        refund_to=None,
        metadata=metadata,
        expires_at=expires_at,
    )
    for scenario in SCENARIOS:
        creation = payments.Creation(token, b"fingerprint", SCENARIOS[scenario], created_at)
        record = payments.create_record(body, creation, CATALOG, 100)
        for index, state in enumerate(payments.states(record)):
            json = payment_template(scenario, index).render(record)
            assert json == msgspec.json.encode(payments.view(record, state))
