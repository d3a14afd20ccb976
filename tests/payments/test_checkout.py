import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.payments import checkout, views
from paymock.payments import creation as creations
from paymock.payments.checkout import Checkout
from paymock.payments.files import load_catalog
from paymock.payments.records import DepositRecord, PaymentRecord, SimulationRecord
from paymock.rules.amounts import MAX_FEE_BPS, MAX_RAW
from paymock.rules.scenarios import PAYMENT_WINDOW, SCENARIOS
from paymock.rules.timeline import state_at
from tests.support.client import HALF, order
from tests.support.clock import NOON
from tests.support.specification import SHOWN

CATALOG = load_catalog(None)
TOKEN = "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt"
FINAL = {"completed", "underpaid_expired", "overpaid_review", "manual_review", "failed"}


def created(
    scenario: str = "happy_path", amount: int = 10**18, asset: str = "USDT", bps: int = 100
) -> PaymentRecord:
    body = order(
        receive__amount=str(amount), receive__asset=asset, pay_with=[{"chain": "bsc", "asset": asset}]
    )
    return creations.create_record(
        body, creations.CreationContext(TOKEN, b"", SCENARIOS[scenario], NOON), CATALOG, bps
    )


def checkout_at(
    record: PaymentRecord, age: int, simulation: SimulationRecord = views.NO_SIMULATION, speed: float = 1
) -> Checkout:
    """The checkout `age` milliseconds after creation."""
    assets = CATALOG.assets(record.chain) or {}
    state = state_at(views.states(record, simulation), age)
    return checkout.checkout(record, state, age, speed, CATALOG.chains[record.chain], assets)


def deposits(*transfers: tuple[int, int, str | None]) -> SimulationRecord:
    """Simulated deposits: (milliseconds after creation, raw units, another asset)."""
    return SimulationRecord(
        deposits=tuple(
            DepositRecord(f"{at}", b"", TOKEN, at, str(amount), asset) for at, amount, asset in transfers
        )
    )


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_each_scenario_shows_its_views_at_its_times(scenario: str) -> None:
    record = created(scenario)
    shown: list[tuple[int, str, str, bool]] = []
    for state in views.states(record):
        page = checkout_at(record, state.at)
        assert bool(page.next) is not page.final
        if not shown or shown[-1][1:] != (page.view, page.headline, page.final):
            shown.append((state.at // 1000, page.view, page.headline, page.final))
    assert shown == SHOWN[scenario]


@pytest.mark.parametrize(
    ("transfers", "age", "shown"),
    [
        ([(4, None)], 4, ("Part of your payment has arrived", "USDT", "", 0)),
        ([(4, None)], 12, ("Part of your payment has arrived", "USDT", "", 16)),
        ([(4, None), (8, None)], 13, ("Payment detected", "USDT", "", 8)),
        ([(4, None), (29, None)], 30, ("Payment detected", "USDT", "", 0)),
        ([(29, None)], 30, ("Partially paid, and the time is up", "USDT", "", 0)),
        ([(4, None), (29, "BNB")], 29, ("A transfer in another asset arrived", "BNB", "another asset", 0)),
        (
            [(1, None), (2, None), (12, "BNB")],
            12,
            ("A transfer in another asset arrived", "BNB", "another asset", 0),
        ),
        ([(4, None), (5, None), (6, None)], 6, ("Payment detected", "USDT", "", 0)),
        ([(29, "BNB")], 30, ("A transfer in another asset arrived", "BNB", "another asset", 0)),
        ([(29, "BNB")], 31, ("In review", "BNB", "another asset", 0)),
        ([(4, None), (31, None)], 31, ("Partially paid, and the time is up", "USDT", "too late", 0)),
    ],
)
def test_the_rest_is_asked_for_while_that_helps(
    transfers: list[tuple[int, str | None]], age: int, shown: tuple[str, str, str, int]
) -> None:
    simulation = deposits(*((at * 1000, HALF, asset) for at, asset in transfers))
    page = checkout_at(created("no_payment_expired"), age * 1000, simulation)
    [*_, newest] = page.deposits
    assert (page.headline, newest.symbol, newest.note, page.confirmations) == shown
    asks = page.view == "detected" and page.missing.tokens == newest.tokens == "0.505"
    assert asks is (page.headline == "Part of your payment has arrived")
    assert page.next.startswith("You paid more") is (len(transfers) == 3 and "USDT" in shown)


def test_the_qr_code_asks_for_a_transfer_by_the_contract_of_the_token_or_for_the_coin_of_the_chain() -> None:
    page = checkout_at(created(), 0)
    contract, to = "0x55d398326f99059fF775485246999027B3197955", f"address={page.invoice_address}"
    assert page.payment_uri == f"ethereum:{contract}@56/transfer?{to}&uint256=1010000000000000000"
    page = checkout_at(created(asset="BNB"), 0)
    assert page.payment_uri == f"ethereum:{page.invoice_address}@56?value=1010000000000000000"


@given(
    st.sampled_from(list(SCENARIOS)),
    st.integers(1, MAX_RAW // 3),
    st.integers(0, MAX_FEE_BPS),
    st.sampled_from(["BNB", "USDT"]),
    st.integers(0, 100_000),
    st.lists(
        st.tuples(st.integers(0, 60_000), st.integers(1, MAX_RAW // 3), st.sampled_from([None, "USDC"])),
        max_size=3,
    ),
)
def test_the_amounts_add_up_at_any_time_of_any_payment(
    scenario: str, amount: int, bps: int, asset: str, age: int, transfers: list[tuple[int, int, str | None]]
) -> None:
    record = created(scenario, amount, asset, bps)
    page = checkout_at(record, age, deposits(*transfers))
    due, settlement, fee = int(page.due.raw), int(page.settlement.raw), int(page.fee.raw)
    received, missing = int(page.received.raw), int(page.missing.raw)
    assert settlement + fee == due
    assert settlement == amount
    assert due == received + missing if missing else received >= due
    assert page.payment_uri.endswith(f"={missing or due}")
    assert page.seconds_left == max(0, PAYMENT_WINDOW - age) / 1000
    assert 0 <= page.confirmations <= page.confirmations_required
    assert page.final == (page.status in FINAL)
    if page.headline == "Part of your payment has arrived":
        assert missing
        assert page.seconds_left > 0
