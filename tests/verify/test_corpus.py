"""Shops that handle money rightly, and shops with one bug each: what the judge says of them."""

import pytest

from paymock.testing import Sandbox
from paymock.verify import Report, verify
from tests.verify.shops.table import BAD, GOOD, Case

pytestmark = pytest.mark.nightly


def judged(case: Case, sandbox: Sandbox) -> Report:
    with case.shop(sandbox.url, sandbox.api_key) as shop:
        tick = None if shop.own_pace else shop.tick
        return verify(
            sandbox,
            order=shop.order,
            deliveries=shop.deliveries,
            tick=tick,
            fulfil_at=case.fulfil_at,
            scenarios=case.scenarios,
        )


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
def test_a_shop_that_is_right_is_safe_and_gets_no_advice(case: Case, paymock: Sandbox) -> None:
    report = judged(case, paymock)
    assert report.verdict == "SAFE", str(report)
    assert report.findings == [], str(report)
    assert report.trials >= 400


# A thread of a wrong shop may end with an exception, which is its bug.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_the_bug_of_a_shop_is_found_with_its_rule(case: Case, paymock: Sandbox) -> None:
    report = judged(case, paymock)
    assert report.verdict == case.verdict, str(report)
    assert case.rules <= {finding.rule for finding in report.findings}, str(report)
