import re
import time
from contextlib import suppress
from math import inf
from pathlib import Path
from typing import Any

import httpx
import pytest

from paymock.client.http import Unreachable
from paymock.settings import Settings
from paymock.testing import Sandbox
from paymock.verify import Report, Verdict, batches, driver, plans, runner, verify
from tests.support.clock import NOON
from tests.support.courses import TWO_HALVES
from tests.support.server import running_server
from tests.verify.campaigns import LOST_CREATION, LOST_READ, NARROW, judged, verifier_of
from tests.verify.shops import bad, good
from tests.verify.shops.base import Shop
from tests.verify.shops.good import Json, Poller

pytestmark = pytest.mark.usefixtures("impatient")

ORDERED = ["createPayment", *["getPayment"] * 9]
"""The requests of a poller in the happy path."""


def state_of(sandbox: Sandbox) -> tuple[float, list[Any], list[Any]]:
    return sandbox.clock()["speed"], sandbox.faults(), sandbox.pending()


def undetermined(report: Report) -> str:
    """The only reason why there is no verdict."""
    assert (report.verdict, report.findings) == ("UNDETERMINED", []), report
    [reason] = report.undetermined
    return reason


class TestVerdicts:
    def test_that_it_did_not_happen_again_is_no_proof_and_the_time_of_a_test_may_stand_still(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        frozen = time.monotonic()
        monkeypatch.setattr(time, "monotonic", lambda: frozen)  # as freezegun does
        report = judged(paymock, Poller, only=LOST_READ)
        assert (report.verdict, report.findings, report.scenarios) == (Verdict.SAFE, [], ["happy_path"])
        assert report.notes[0].startswith(f"{LOST_READ} broke no rule: this does not prove")

    def test_goods_are_due_when_the_user_says_so(self, paymock: Sandbox) -> None:
        scenarios = ["happy_path", "settlement_failed"]
        report = judged(
            paymock, good.EarlyDelivery, fulfil_at="payment_finalized", scenarios=scenarios, faults=[]
        )
        assert (report.verdict, report.trials) == ("SAFE", 2)
        assert judged(paymock, good.EarlyDelivery, faults=[]).findings[0].rule == "free_goods"

    @pytest.mark.ci
    def test_every_request_gets_the_fault_once(self, paymock: Sandbox) -> None:
        with verifier_of(paymock, Poller) as verifier:
            steps = [*verifier.run()]
            assert verifier.report().verdict == "SAFE"
        planned = 1 + len(ORDERED)
        assert steps[0] == (1, 1, 0, "scenarios", "")
        assert [*dict.fromkeys(step.done for step in steps)] == [*range(1, planned + 1)]
        assert sum(entry["fault"] == "drop" for entry in paymock.requests()) == len(ORDERED)

    def test_requests_about_no_order_get_their_faults_too(self, paymock: Sandbox) -> None:
        class NeedsCatalog(good.Catalog):
            """Forgets an order when the catalog fails, and says that it went well."""

            def order(self, order_id: str) -> None:
                with suppress(httpx.HTTPError):
                    Poller.order(self, order_id)

        token = "happy_path/listAssets=drop"
        assert judged(paymock, good.Catalog, only=token).verdict == "SAFE"
        assert {entry["operation"] for entry in paymock.requests() if entry["fault"]} == {"listAssets"}
        [finding] = judged(paymock, NeedsCatalog, only=token).findings
        assert (finding.rule, finding.also) == ("lost_order", ["gives_up"])
        assert (finding.faults, finding.payment_id, finding.timeline) == (["listAssets: drop"], None, [])
        assert finding.story[2] == "Application: 0 payments created, 0 reads, the last status it saw is none."

    @pytest.mark.ci
    def test_a_request_that_is_not_sent_again_is_noted(self, paymock: Sandbox) -> None:
        class SlowStart(Poller):
            def create(self, body: Json, key: str) -> str:
                if not self.open and not self.delivered:  # as if the first reply had come too late
                    super().create(body, key)
                return super().create(body, key)

        report = judged(paymock, SlowStart)
        assert (report.verdict, report.undetermined) == ("SAFE", []), report
        assert report.notes[0] == "createPayment#2 in happy_path: it was sent once, and not again"
        assert report.planned - report.trials == 1

    def test_other_requests_and_payments_do_not_matter(self, paymock: Sandbox) -> None:
        class Curious(Poller):
            def order(self, order_id: str) -> None:
                super().order(order_id)
                for path in ("/v1/refunds", "/v1/payments/pay_x"):
                    self.http.get(path)

        paymock.create()
        assert judged(paymock, Curious, faults=[]).verdict == "SAFE"

    def test_goods_that_go_out_again_later_are_counted(self, paymock: Sandbox) -> None:
        class SendsAgain(Poller):
            """Sends the goods of the order before once more."""

            def order(self, order_id: str) -> None:
                for earlier in [*self.delivered]:
                    self.delivered[earlier] += 1
                super().order(order_id)

        scenarios = ["happy_path", "no_payment_expired"]
        report = judged(paymock, SendsAgain, scenarios=scenarios, faults=[])
        assert report.verdict == "UNSAFE"
        assert [finding.rule for finding in report.findings] == ["double_delivery"]

    def test_a_scenario_of_a_file_is_one_like_the_others(self, tmp_path: Path) -> None:
        file = tmp_path / "scenarios.toml"
        file.write_text(TWO_HALVES)
        with running_server(Settings(port=0, scenarios=file)) as server:
            server.clock.now = NOON
            with Sandbox(server.url, "mk_test_halves") as sandbox:
                shop = bad.paid_at("payment_detected")
                [finding] = judged(sandbox, shop, scenarios=["two_halves"], faults=[]).findings
        assert (finding.rule, finding.scenario) == ("free_goods", "two_halves")
        course = "scenario two_halves. The customer pays in two halves."
        assert finding.story[0] == f"Order:       {finding.order_id}, {course}"

    def test_who_was_told_of_a_failure_orders_again(self, paymock: Sandbox) -> None:
        class FailsFirst(Poller):
            def order(self, order_id: str) -> None:
                if order_id not in self.delivered:
                    self.delivered[order_id] = 0
                    raise ConnectionError("the database is starting")
                super().order(order_id)

        report = judged(paymock, FailsFirst, only=LOST_CREATION)
        assert (report.verdict, report.findings) == ("SAFE", [])

    def test_deliveries_that_cannot_be_told_are_asked_again(self, paymock: Sandbox) -> None:
        class Busy(Poller):
            def deliveries(self, order_id: str) -> bool:
                self.counts[order_id] += 1
                if self.counts[order_id] == 1:
                    raise ConnectionError("the warehouse does not answer")
                return order_id in self.delivered

        assert judged(paymock, Busy, faults=[]).verdict == "SAFE"  # and true is once

    def test_a_raw_unit_less_is_not_enough(self, paymock: Sandbox) -> None:
        [finding] = judged(paymock, bad.ForgivesDust, scenarios=["one_unit_short"], faults=[]).findings
        assert (finding.rule, finding.token, finding.faults) == ("free_goods", "one_unit_short", [])
        [payment] = finding.payments
        assert payment["due"] - payment["received"] == 1

    def test_it_can_end_with_the_first_finding_about_money(self, paymock: Sandbox) -> None:
        report = judged(paymock, bad.paid_at("payment_detected"), fail_fast=True)
        [finding] = report.findings
        assert (finding.token, finding.certainty, report.trials) == ("happy_path", "repeated", 1)

    @pytest.mark.ci
    @pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
    def test_that_an_outage_ends_the_polling_loop_is_not_blamed_on_what_came_before(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(batches, "OUTAGE_SECONDS", 0.5)
        monkeypatch.setattr(driver, "_SILENCE", 1.0)
        chosen: dict[str, Any] = {"faults": None, "fulfil_at": ("completed",)}
        report = judged(paymock, bad.PollingLoopDies, at_once=True, **chosen)
        assert {finding.rule for finding in report.findings} <= {"lost_sale", "gives_up"}, str(report)
        assert report.verdict == "UNSAFE", str(report)
        assert not any("/order" in finding.token for finding in report.findings), str(report)

    @pytest.mark.ci
    def test_who_retries_after_a_pause_is_waited_for_as_long_as_that_takes(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class Pauses(good.Backoff):
            first_seconds = most_seconds = 1.0

        monkeypatch.setattr(driver, "MIN_PATIENCE", 0.3)
        monkeypatch.setattr(plans, "FAULTS", {"status=500": plans.Frequency.FIRST})
        monkeypatch.setattr(batches, "OUTAGE_SECONDS", 0.3)
        report = judged(paymock, Pauses, faults=None, settle=5)
        assert (report.verdict, report.findings) == ("SAFE", []), str(report)

    def test_a_finding_about_unknown_members_can_be_repeated(self, paymock: Sandbox) -> None:
        report = judged(paymock, bad.DecodesStrictly, only="happy_path/getPayment=extra")
        [finding] = report.findings
        assert finding.title == "breaks_on_new_fields when getPayment gets `extra`"
        assert finding.explanation.startswith("With unknown members in replies, the payment was `completed`,")


class ForgetsOpenOrders(Poller):
    """It keeps its open orders in memory. A reply that is held costs it as long as its timeout."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.http.timeout = httpx.Timeout(0.05)

    def crash(self) -> None:
        self.open.clear()


@pytest.mark.ci
def test_what_a_crash_costs_is_told_with_the_moment(paymock: Sandbox) -> None:
    with ForgetsOpenOrders(paymock.url, paymock.api_key) as shop:
        report = verify(
            paymock,
            order=shop.order,
            deliveries=shop.deliveries,
            tick=shop.tick,
            crash=shop.crash,
            **NARROW | {"faults": []},
        )
    assert "crash" in report.coverage.batches
    [finding] = [finding for finding in report.findings if finding.rule == "lost_sale"]
    assert ("=crash" in finding.token, "is killed" in finding.faults[0]) == (True, True)


@pytest.mark.ci
def test_kills_that_all_come_before_the_goods_go_out_prove_nothing(
    paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(batches, "_SIXTEEN_ORDERS", 2)  # the first come before the next tick
    with Poller(paymock.url, paymock.api_key) as shop:
        shop.http.timeout = httpx.Timeout(0.05)
        report = verify(
            paymock,
            order=shop.order,
            deliveries=shop.deliveries,
            tick=shop.tick,
            crash=lambda: None,
            only="happy_path/deliveries=crash",
            settle=0.05,
        )
    assert report.verdict == "UNDETERMINED", str(report)
    assert report.undetermined == ["happy_path/deliveries=crash: each kill came before goods had gone out"]


class FailsToPoll(Poller):
    def tick(self) -> None:
        raise RuntimeError("the database is locked")


class FailsToOrder(Poller):
    def order(self, order_id: str) -> None:
        raise RuntimeError("the database is locked")


class HasAnotherSandbox(Poller):
    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, "mk_test_another")


class ChoosesTheScenario(Poller):
    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.http.headers["X-Mock-Scenario"] = "late_payment"


class MovesTheClock(Poller):
    def tick(self) -> None:
        super().tick()
        self.http.post("/_mock/clock/advance", json={"seconds": 0.001})


class MovesThePayment(Poller):
    def poll(self, order_id: str, payment_id: str) -> None:
        self.http.post(f"/_mock/payments/{payment_id}/advance", json={"to": "end"})
        super().poll(order_id, payment_id)


class LosesItsFirstOrder(Poller):
    first = ""
    first_goods = 0

    def decide(self, order_id: str, payment: Json) -> None:
        self.first = self.first or order_id
        super().decide(order_id, payment)
        if self.delivered[self.first]:
            self.delivered[self.first] = self.first_goods


class DeliversItsFirstOrderTwice(LosesItsFirstOrder):
    first_goods = 2


class TestUndetermined:
    @pytest.mark.parametrize(
        ("shop", "reason"),
        [
            (FailsToPoll, "happy_path: the application never read its payment: does `tick` poll it?"),
            (FailsToOrder, ": RuntimeError: the database is locked. Does the application use this server"),
            (
                HasAnotherSandbox,
                "was created. Does the application use this server and API key, and the order",
            ),
            (ChoosesTheScenario, "follows late_payment: the application must not send X-Mock-Scenario"),
            (MovesTheClock, "the clock of the sandbox was moved"),
            (MovesThePayment, "the payment was moved by others: the judge moves it by itself"),
        ],
    )
    def test_an_application_that_cannot_be_judged(
        self, paymock: Sandbox, shop: type[Shop], reason: str
    ) -> None:
        before = state_of(paymock)
        report = judged(paymock, shop, faults=[])
        assert reason in undetermined(report)
        assert state_of(paymock) == before
        if shop is FailsToPoll:
            [failed, _] = report.notes
            assert failed.startswith("`tick` failed ")
            assert failed.endswith(", the last time with RuntimeError: the database is locked")

    @pytest.mark.parametrize(
        ("shop", "rule"), [(LosesItsFirstOrder, "lost_sale"), (DeliversItsFirstOrderTwice, "double_delivery")]
    )
    def test_what_the_record_proves_needs_no_repetition(
        self, paymock: Sandbox, shop: type[Shop], rule: str
    ) -> None:
        report = judged(paymock, shop, faults=[])
        [finding] = report.findings
        assert (report.verdict, finding.rule, finding.certainty) == ("UNSAFE", rule, "recorded")
        assert re.fullmatch("in 1 of [0-9]+ trials; the cause is not certain", finding.cause)

    def test_a_fault_that_is_never_hit(self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(runner, "_HIT_TRIES", 2)
        report = judged(paymock, Poller, only="happy_path/getPayment@6=drop")
        assert undetermined(report) == "happy_path: getPayment@6: drop was never hit"

    def test_an_application_that_is_given_no_tick(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(driver, "_SILENCE", 0.02)
        report = judged(paymock, Poller, tick=None)
        assert (report.verdict, report.findings) == ("UNDETERMINED", [])
        assert report.undetermined[0] == (
            "happy_path: the application never read its payment: is `tick` missing?"
        )

    def test_a_creation_that_is_refused_is_told_at_once(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        class SendsCents(Poller):
            def create(self, body: Json, key: str) -> str:
                return super().create({**body, "receive": {**body["receive"], "amount": "25.00"}}, key)

            def order(self, order_id: str) -> None:
                with suppress(httpx.HTTPError):
                    super().order(order_id)

        monkeypatch.setattr(driver, "MIN_PATIENCE", 1000)
        reason = undetermined(judged(paymock, SendsCents, faults=[]))
        assert "was created: createPayment got 422 validation_failed (receive.amount " in reason

    @pytest.mark.parametrize("answer", [None, "1", -1, 1.0, LookupError("no table")])
    def test_deliveries_that_cannot_be_told(self, paymock: Sandbox, answer: Any) -> None:
        class Breaks(Poller):
            def deliveries(self, order_id: str) -> Any:
                if isinstance(answer, Exception):
                    raise answer
                return answer

        reason = (
            "LookupError: no table"
            if isinstance(answer, Exception)
            else f"TypeError: must be how often the goods went out, not {answer!r}"
        )
        reasons = undetermined(judged(paymock, Breaks, faults=[]))
        assert reasons == f"happy_path: deliveries cannot be told: {reason}"

    def test_a_trial_ends_soon_after_the_budget(self, paymock: Sandbox) -> None:
        before = state_of(paymock)

        class SpendsTheBudget(Poller):
            def tick(self) -> None:
                super().tick()
                if paymock.faults():  # the trial with the fault has begun
                    verifier.runner.began = -inf

        with verifier_of(paymock, SpendsTheBudget, only=LOST_READ, budget=3600) as verifier:
            assert len([*verifier.run()]) >= 2
            report = verifier.report()
        assert (report.verdict, report.findings) == ("UNDETERMINED", [])
        assert f"{LOST_READ}: it did not end within the budget" in report.undetermined
        assert state_of(paymock) == before

    def test_trials_that_did_not_begin_are_named(
        self, paymock: Sandbox, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        with verifier_of(paymock, Poller) as verifier:
            for progress in verifier.run():
                assert (progress.done, progress.broken) == (1, 0)
                monkeypatch.setattr(verifier.runner, "_budget", 0)
            report = verifier.report()
        tokens = [f"happy_path/{request}=drop" for request in ("createPayment", "getPayment@0")]
        assert report.undetermined[:2] == [f"{one}: not begun, since the budget has ended" for one in tokens]
        assert len(report.undetermined) == len(ORDERED)
        assert report.trials == 1

    def test_polling_the_oldest_order_only(self, paymock: Sandbox) -> None:
        class PollsOldestOnly(Poller):
            def decide(self, order_id: str, payment: Json) -> None:
                self.delivered[order_id] = payment["status"] == "completed"

            def tick(self) -> None:
                self.poll(*next(iter(self.open.items())))

        report = judged(paymock, PollsOldestOnly, scenarios=["happy_path", "late_payment"], faults=[])
        reason = "late_payment: the application never read its payment: does `tick` poll it?"
        assert reason in report.undetermined


class TestArguments:
    @pytest.mark.parametrize(
        ("settings", "message"),
        [
            ({"fulfil_at": "paid"}, "fulfil_at must be one of awaiting_payment, .*, failed, not 'paid'"),
            ({"scenarios": ["expired"]}, "there is no scenario 'expired'; there are happy_path, "),
            ({"scenarios": []}, "scenarios must name at least one scenario"),
            ({"faults": ["explode"]}, r"'explode' must be status=CODE \(400 to 599; "),
            ({"only": "expired"}, "there is no scenario 'expired'; there are happy_path, "),
            ({"only": "happy_path/getPayment"}, "'getPayment' must be like getPayment@5=drop"),
            ({"only": "happy_path/getPayment=explode"}, "'explode' must be status=CODE"),
            ({"only": "*/getPayment@0=drop"}, r"there is no scenario '\*'"),
            ({"only": "*/order=3x"}, r"order is not of \*"),
            ({"only": "happy_path/outage=drop"}, "outage is not of happy_path"),
            ({"only": "happy_path/deliveries=crash"}, "needs `crash`, or --run and --ready"),
            ({"only": "happy_path/getPayment@0=meet+2"}, "that needs --replicas"),
        ],
    )
    def test_unknown_names_are_refused(
        self, paymock: Sandbox, settings: dict[str, Any], message: str
    ) -> None:
        with pytest.raises(ValueError, match=message):
            judged(paymock, Poller, **settings)
        assert paymock.requests() == []


class TestSandbox:
    @pytest.mark.parametrize("factor", [0, 2.5])
    @pytest.mark.parametrize("shop", [Poller, bad.NewKeyPerTry])
    def test_it_is_left_as_it_was(self, paymock: Sandbox, shop: type[Shop], factor: float) -> None:
        paymock.speed(factor)
        judged(paymock, shop, only=LOST_CREATION)
        assert state_of(paymock) == (factor, [], [])

    def test_a_refusal_of_its_own_call_is_a_sentence(self, paymock: Sandbox) -> None:
        class Resets(Poller):
            def decide(self, order_id: str, payment: Json) -> None:
                paymock.reset()

        report = judged(paymock, Resets)
        assert (report.verdict, report.findings) == ("UNDETERMINED", [])
        assert report.undetermined[0].startswith("happy_path: the judge was refused: ")

    def test_there_may_be_no_room_for_its_fault_rules(self, paymock: Sandbox) -> None:
        for _ in range(100):
            paymock.fault("drop", operation="listChains")
        report = judged(paymock, Poller)
        assert (report.verdict, report.findings) == ("UNDETERMINED", [])
        assert "the judge was refused: " in report.undetermined[0]
        assert " already has 100 fault rules" in report.undetermined[0]


class Interrupted(Poller):
    """Its user presses Ctrl-C while it polls for the fifth time."""

    def tick(self) -> None:
        self.counts["ticks"] += 1
        if self.counts["ticks"] == 5:
            raise KeyboardInterrupt
        super().tick()


def test_an_interrupt_passes_through_verify_and_the_sandbox_is_left_as_it_was(paymock: Sandbox) -> None:
    paymock.speed(2.5)
    with pytest.raises(KeyboardInterrupt):
        judged(paymock, Interrupted)
    assert state_of(paymock) == (2.5, [], [])


@pytest.mark.parametrize("is_interrupted", [False, True])
def test_a_server_that_fails_ends_the_run_with_what_was_seen(
    paymock: Sandbox, monkeypatch: pytest.MonkeyPatch, *, is_interrupted: bool
) -> None:
    calls: list[object] = []

    def fail(*call: object, **_: object) -> None:
        calls.append(call)
        raise Unreachable("the server is gone")

    with verifier_of(paymock, bad.DropsAfterFailedPoll) as verifier:
        for progress in verifier.run():
            if progress.broken:
                monkeypatch.setattr(Sandbox, "send", fail)
                if is_interrupted:
                    break
        report = verifier.report()
    monkeypatch.undo()
    assert len(calls) == 1 or not is_interrupted  # each may wait for a server that hangs
    finding = report.findings[0]
    assert (report.verdict, finding.rule, finding.certainty) == ("UNDETERMINED", "lost_sale", "suspected")
    assert re.match(r"UNDETERMINED: lost_sale in \d of \d trials.*, not confirmed; ", report.summary)
    assert "the server is gone" in report.undetermined


def test_a_journal_that_was_overwritten_proves_no_silence(paymock: Sandbox) -> None:
    class FloodsTheJournal(Poller):
        """Clears the journal at its 20th tick, as a thousand requests would."""

        def tick(self) -> None:
            super().tick()
            self.counts["ticks"] += 1
            if self.counts["ticks"] == 20:
                self.http.delete("/_mock/requests")

    report = judged(paymock, FloodsTheJournal)
    assert report.verdict == "SAFE", str(report)
    assert any("requests were lost" in note for note in report.notes)


@pytest.mark.parametrize(
    ("shop_type", "told"),
    [
        (Poller, r"(?s)\bSAFE.*patience seen: \d+ s, 1\d reads"),
        (bad.GivesUpAfterReads, r"(?s)\bUNSAFE.*lost_sale.*it read no more after 12 reads \(\d s\) at `"),
    ],
)
def test_with_ticks_a_slow_payment_is_read_some_hundred_times(
    paymock: Sandbox, monkeypatch: pytest.MonkeyPatch, shop_type: type[Shop], told: str
) -> None:
    monkeypatch.setattr(batches, "_TICKED_READS", 13)
    assert re.search(told, str(judged(paymock, shop_type, only="happy_path/patience=1s", faults=None)))
