"""Each shop sells, as long as nothing fails."""

import pytest

from harness.polling import wait_until
from paymock.testing import Sandbox
from tests.verify.shops.table import BAD, GOOD, Case

ORDER = "order-1"
FURTHER_TICKS = 4

WRONG_WITHOUT_FAULTS = {"reads_by_replay": 0, "delivers_each_sighting": 3, "two_workers": 2}
"""How often shops deliver whose bug needs no fault."""


def deliveries(case: Case, paymock: Sandbox, expected: int) -> tuple[int, int]:
    """How often a shop that sees every status has delivered before the one it should wait for, and after,
    once it has done so as often as expected.
    """
    with case.shop(paymock.url, paymock.api_key) as shop:
        before = 0
        shop.order(ORDER)
        if not shop.own_pace:
            shop.tick()
        payment = paymock.wait_for(ORDER, "awaiting_payment")
        while payment["status"] != case.fulfil_at:
            before = shop.deliveries(ORDER)
            if shop.own_pace:
                payment = paymock.advance_payment(payment["id"], to="next", until_observed=True)
            else:
                payment = paymock.advance_payment(payment["id"], to="next")
                shop.tick()
        for _ in range(0 if shop.own_pace else FURTHER_TICKS):
            shop.tick()
        wait_until(lambda: shop.deliveries(ORDER) >= expected)
        shop.stop()
        return before, shop.deliveries(ORDER)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_good_shop_delivers_once_when_the_status_comes_and_not_before(case: Case, paymock: Sandbox) -> None:
    assert deliveries(case, paymock, 1) == (0, 1)


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_a_bad_shop_delivers_once_unless_its_bug_needs_no_fault(case: Case, paymock: Sandbox) -> None:
    expected = WRONG_WITHOUT_FAULTS.get(case.name, 1)
    _, after = deliveries(case, paymock, expected)
    assert after == expected
