"""Shops that handle money rightly, and shops with one bug each: what the judge says of them."""

from collections.abc import Iterable
from typing import Any

import pytest

from paymock.testing import Sandbox
from paymock.verify import Report, verify
from tests.verify.shops.table import BAD, GOOD, SHOPS, Case

CI = {
    "delivers_when_detected",
    "drops_on_html",
    "delivers_before_receipt",
    "new_key_per_try",
    "polls_forever",
}
"""One for each rule about money, and one for advice. With them goes the poller, in two scenarios."""

WITHOUT_FAULTS = {"reads_by_replay", "delivers_each_sighting", "two_workers"}
"""Shops whose bug takes no fault, beside those that deliver free goods."""

POLLER = SHOPS["poller"]._replace(scenarios=("late_payment", "underpaid_expired"))


def in_tiers(cases: Iterable[Case]) -> list[Any]:
    return [
        pytest.param(case, id=case.name, marks=pytest.mark.ci if case.name in CI else pytest.mark.nightly)
        for case in cases
    ]


def judged(case: Case, sandbox: Sandbox) -> Report:
    with case.shop(sandbox.url, sandbox.api_key) as shop:
        return verify(
            sandbox,
            order=shop.order,
            deliveries=shop.deliveries,
            tick=None if shop.own_pace else shop.tick,
            fulfil_at=case.fulfil_at,
            scenarios=case.scenarios,
        )


@pytest.mark.parametrize(
    "case", [*in_tiers(GOOD), pytest.param(POLLER, id="poller in two scenarios", marks=pytest.mark.ci)]
)
def test_a_shop_that_is_right_is_safe_and_gets_no_advice(case: Case, paymock: Sandbox) -> None:
    report = judged(case, paymock)
    assert report.verdict == "SAFE", str(report)
    assert report.findings == [], str(report)
    assert report.trials >= (400 if case.scenarios is None else 80)


# A thread of a wrong shop may end with an exception, which is its bug.
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
@pytest.mark.parametrize("case", in_tiers(BAD))
def test_the_bug_of_a_shop_is_found_with_its_rule(case: Case, paymock: Sandbox) -> None:
    report = judged(case, paymock)
    assert report.verdict == case.verdict, str(report)
    found = {finding.rule: finding.faults for finding in reversed(report.findings)}
    assert case.rules <= found.keys(), str(report)
    if case.verdict == "UNSAFE" and "free_goods" not in case.rules:
        assert all(found[rule] for rule in case.rules) == (case.name not in WITHOUT_FAULTS), str(report)
