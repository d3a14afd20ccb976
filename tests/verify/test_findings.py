import re

import pytest

from paymock.testing import Sandbox
from tests.verify.campaigns import BUGS, LOST_CREATION, LOST_READ, judged, verifier_of
from tests.verify.shops import bad
from tests.verify.shops.base import Shop
from tests.verify.shops.good import Json, Poller

pytestmark = pytest.mark.usefixtures("impatient")


@pytest.mark.parametrize(("shop", "rule", "token"), BUGS)
def test_a_finding_can_be_repeated(paymock: Sandbox, shop: type[Shop], rule: str, token: str) -> None:
    report = judged(paymock, shop, only=token, scenarios=None, faults=None)
    finding = report.findings[0]
    assert (report.verdict, finding.rule, finding.token) == ("UNSAFE", rule, token)
    assert len(finding.faults) == token.count("/")
    assert report.trials > len(finding.faults)
    assert [entry["order_id"] for entry in finding.requests] == [finding.order_id] * len(finding.requests)
    assert finding.payment_id in {entry["payment_id"] for entry in finding.requests}
    assert finding.timeline[-1]["status"] == "completed"


def test_the_fault_of_a_token_hits_its_state_although_a_reply_was_held(paymock: Sandbox) -> None:
    class PollsByItself(bad.TakesAnySuccess):
        own_pace = True

    token = "no_payment_expired/getPayment@30=status=200+html"
    [finding] = judged(paymock, PollsByItself, only=token, scenarios=None, faults=None).findings
    assert (finding.rule, finding.token) == ("free_goods", token)


def test_its_cause_and_its_story_name_the_fault_and_what_went_wrong(paymock: Sandbox) -> None:
    [finding] = judged(paymock, bad.DropsAfterFailedPoll, only=LOST_READ).findings
    assert finding.title == "lost_sale when getPayment gets `drop`: it reads no more"
    *told, wrong = finding.story
    assert told[0].startswith(f"Order:       {finding.order_id}, scenario happy_path. The customer pays")
    assert told[1:] == [
        "Network:     getPayment at `awaiting_payment` gets `drop`.",
        "Application: 1 payment created, 1 read, the last status it saw is `awaiting_payment`.",
        "Goods:       never went out.",
    ]
    assert re.search(r"the application sent nothing more for \d+ s after its `getPayment`\.$", wrong)


def test_free_goods_are_told_with_the_status_at_which_they_went_out(paymock: Sandbox) -> None:
    [finding] = judged(paymock, bad.paid_at("payment_detected"), faults=[]).findings
    assert finding.story[1] == "Network:     no fault."
    assert finding.story[3] == "Goods:       went out once, first at `payment_detected`."
    assert "when the payment was `payment_detected`, before it was `completed`" in finding.explanation


@pytest.mark.ci
def test_findings_of_one_kind_are_one(paymock: Sandbox) -> None:
    report = judged(paymock, bad.DropsAfterFailedPoll, faults=["drop", "reset"])
    [finding] = report.findings
    assert (finding.rule, finding.count, finding.also) == ("lost_sale", "18 of 18", ["gives_up"])


@pytest.mark.parametrize(
    ("shop", "fault", "smallest_plans"),
    [
        (bad.DropsAfterFailedPoll, "status=500+times=6", "status=500"),
        (bad.DropsAfterThreeFailures, "drop+times=6", "drop; times=3"),
    ],
)
def test_an_outage_is_made_as_short_as_it_may_be(
    paymock: Sandbox, shop: type[Shop], fault: str, smallest_plans: str
) -> None:
    [finding, *_] = judged(paymock, shop, only=f"happy_path/getPayment@0={fault}").findings
    assert (finding.rule, finding.faults) == ("lost_sale", [f"getPayment@0: {smallest_plans}"])


@pytest.mark.ci
def test_two_faults_show_what_one_does_not(paymock: Sandbox) -> None:
    class DropsAfterTwoFailures(bad.DropsAfterFailedPoll):
        patience = 2

    [finding, *_] = judged(paymock, DropsAfterTwoFailures, only=f"{LOST_READ}/getPayment@5=drop").findings
    assert (finding.rule, finding.faults) == ("lost_sale", ["getPayment@0: drop", "getPayment@5: drop"])


def test_what_is_found_is_in_each_later_report(paymock: Sandbox) -> None:
    known: set[str] = set()
    with verifier_of(paymock, bad.NewKeyPerTry, only=LOST_CREATION) as verifier:
        assert verifier.report().verdict == "UNDETERMINED"
        for _ in verifier.run():
            found = {rule for rule, verdict in verifier.report().rules.items() if verdict == "broken"}
            assert known <= found
            known = found
    assert known == {"double_payment", "key_not_reused"}


def test_a_finding_that_was_not_repeated_is_told(paymock: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    with verifier_of(paymock, bad.DropsAfterFailedPoll, budget=3600) as verifier:
        for progress in verifier.run():
            if progress.broken:
                monkeypatch.setattr(verifier.runner, "seconds_left", lambda: -0.001)
        report = verifier.report()
    [finding] = report.findings
    assert (report.verdict, finding.rule, finding.certainty) == ("UNDETERMINED", "lost_sale", "suspected")
    assert f"{LOST_READ}: lost_sale was not repeated within the budget" in report.undetermined


@pytest.mark.ci
def test_without_a_fault_a_raw_unit_less_is_a_finding_of_its_own(paymock: Sandbox) -> None:
    class TakesOverpaid(bad.ForgivesDust):
        paid = frozenset({"completed", "overpaid_review"})

    scenarios = ["happy_path", "underpaid_expired", "overpaid_review"]
    report = judged(paymock, TakesOverpaid, scenarios=scenarios, faults=None)
    assert {one.scenario for one in report.findings if one.is_money} == {"overpaid_review", "one_unit_short"}


def test_advice_that_the_requests_of_one_run_prove_is_recorded(paymock: Sandbox) -> None:
    [finding] = judged(paymock, bad.PollsForever, faults=[]).findings
    assert (finding.rule, finding.certainty) == ("polls_forever", "recorded")


def test_the_report_says_what_was_asked_for(paymock: Sandbox) -> None:
    class TakesSixDecimals(Poller):
        def create(self, body: Json, key: str) -> str:
            return super().create({**body, "receive": {**body["receive"], "amount": "25000000"}}, key)

    report = judged(paymock, TakesSixDecimals, faults=[])
    assert (report.verdict, report.notes) == ("SAFE", ["1 payment asked for 0.000000000025 USDT on bsc"])


def test_goods_that_a_fault_sends_out_early_are_free_goods(paymock: Sandbox) -> None:
    report = judged(paymock, bad.DeliversUnknownReplies, only="happy_path/getPayment@0=status=500")
    [finding] = report.findings
    assert (report.verdict, finding.rule, finding.also) == ("UNSAFE", "free_goods", [])
    assert "went out once, first at `awaiting_payment`." in finding.story[3]


def test_each_payment_of_an_order_is_told_with_its_scenario_and_sums(paymock: Sandbox) -> None:
    token = "underpaid_expired/createPayment=status=500+after"
    [finding, *_] = judged(paymock, bad.NewKeyPerTry, only=token, scenarios=None).findings
    assert finding.cause == (
        "when a reply to createPayment is `status=500; after`: 2 payments were created for one order"
    )
    courses = "payment 1: underpaid_expired, never seen by the application · payment 2: underpaid_expired."
    assert finding.story[0] == f"Order:       {finding.order_id}, {courses}"
    first, second = finding.payments
    assert 0 < first["received"] < first["due"]
    assert first["timeline"][-1]["status"] == "underpaid_expired"
    assert (second["payment_id"], second["timeline"]) == (finding.payment_id, finding.timeline)
