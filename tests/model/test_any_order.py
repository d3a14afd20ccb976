"""Requests in any order, against a reference model: a sandbox does what its documents say, whatever came
before.

The server's clock stands still but where the machine moves it. Times are in milliseconds.
"""

import uuid
from collections import Counter
from typing import Any, ClassVar

import httpx
import pytest
from hypothesis import HealthCheck, settings
from hypothesis import strategies as st
from hypothesis.stateful import (
    RuleBasedStateMachine,
    initialize,
    precondition,
    rule,
    run_state_machine_as_test,
)

from paymock.settings import Settings
from tests.model.reference_model import SCENARIOS, SECOND, WINDOW, Json, Payment, Unreachable, fee_of
from tests.model.reference_views import UNDETERMINED, details_view, payment_view, rfc3339
from tests.support.client import Api, error_of, order
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server

FEES = (0, 1, 100, 9_999)
"""Basis points: at least 1 raw unit, roundings up, nearly the whole amount."""

EXAMPLES, STEPS = 400, 40
"""With so many, all that is EXPECTED happens."""

MAX_AMOUNT = 2**256 - 1
MAX_DEPOSITS = 100
ASSETS = ("USDT", "USDC")
"""Tokens of one chain: the other asset of each is the other one."""

KEYS = st.sampled_from([f"order-{number}-payment" for number in range(12)])
DEPOSIT_KEYS = st.sampled_from([None, None, "first-transfer", "second-transfer", "order-1-payment"])
LIMITS = [10**18, MAX_AMOUNT, MAX_AMOUNT // 2, MAX_AMOUNT * 100 // 101, MAX_AMOUNT * 100 // 101 + 1]
AMOUNTS = st.integers(1, 30) | st.integers(1, 30_000) | st.sampled_from(LIMITS) | st.integers(1, MAX_AMOUNT)
ORDERS = st.builds(
    lambda amount, asset, more: order(
        receive__amount=str(amount), receive__asset=asset, pay_with=[{"chain": "bsc", "asset": asset}], **more
    ),
    AMOUNTS,
    st.sampled_from(ASSETS),
    st.sampled_from([{}, {"metadata": {"customer_id": "c_2"}}, {"expires_at": ..., "refund_to": ...}]),
)
REFUSED = st.sampled_from([order(order_id=""), order(pay_with=[]), order(receive__amount="1.5"), {}, []])
SCENARIO_NAMES = st.sampled_from([*SCENARIOS, *["no_payment_expired"] * 4])  # in which deposits decide most
SPANS = st.sampled_from([1, 999, 2_000, 7_999, 8_000]) | st.integers(1, 10_000) | st.integers(1, 60_000)
STATUSES = [
    *("awaiting_payment", "payment_detected", "payment_finalized"),
    *("settlement_pending", "settlement_submitted", "completed"),
    *("expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"),
]
"""Specification: "Payment statuses"."""

ANY = st.integers(0, 99)
BASES = st.sampled_from(["rest", "rest", "rest", "due", "half", "none"])
PLUS = st.sampled_from([0, 0, 0, 0, 0, -1, 1, 2, MAX_AMOUNT])
MOSTLY_NOT = st.sampled_from([False, False, True])
CREATIONS, ENDPOINTS, DEPOSITS = "/v1/payments", "/v1/webhooks", "/_mock/payments/{}/deposits"
CONFLICT = (409, "idempotency_key_reused_with_different_payload")
INVALID = (422, "validation_failed")
UNKNOWN = (404, "payment_not_found")


def determined(value: Any) -> Any:
    """A reply without what the model leaves out."""
    if isinstance(value, dict):
        return {name: determined(one) for name, one in value.items() if name not in UNDETERMINED}
    return [determined(one) for one in value] if isinstance(value, list) else value


class Requests(RuleBasedStateMachine):
    """What a client may ask for, in any order."""

    server: ClassVar[RunningServer]
    api: ClassVar[Api]
    fee_bps: ClassVar[int]
    happened: ClassVar[Counter[str]]

    def __init__(self) -> None:
        super().__init__()
        self.api.headers["Authorization"] = f"Bearer mk_test_{uuid.uuid4().hex}"
        self.forgotten: list[str] = []
        self.begin()

    def begin(self) -> None:
        """A sandbox that nobody has touched."""
        self.now, self.speed = self.server.clock.now, 1.0
        self.payments: dict[str, Payment] = {}
        self.endpoints: list[Json] = []
        self.keys: dict[str, tuple[str, Any, bytes]] = {}
        self.overrides: list[tuple[str, int | None]] = []
        self.simulated = Counter[str]()

    def ask(self, method: str, path: str, body: Any = None, **headers: str | None) -> httpx.Response:
        given = {name.replace("_", "-"): value for name, value in headers.items() if value}
        return self.api.request(method, path, json=body, headers=given)

    def read(self, path: str) -> Any:
        reply = self.api.get(path)
        assert reply.status_code == 200, reply.text
        return determined(reply.json())

    def chosen(self, which: int) -> tuple[str, Payment]:
        return [*self.payments.items()][which % len(self.payments)]

    @initialize(scenario=SCENARIO_NAMES, body=ORDERS)
    def begin_with_a_payment(self, scenario: str, body: Json) -> None:
        self.create("order-0-payment", body, scenario, None)

    @rule(key=KEYS, body=ORDERS)
    def create_without_headers(self, key: str, body: Json) -> None:
        self.create(key, body, None, None)

    @rule(
        key=KEYS,
        body=ORDERS,
        scenario=st.none() | SCENARIO_NAMES,
        fault=st.sampled_from([None, None, "drop", "status=503"]),
    )
    def create(self, key: str, body: Json, scenario: str | None, fault: str | None) -> None:
        headers = {"X_Mock_Scenario": scenario, "X_Mock_Fault": fault}
        if fault == "drop":
            with pytest.raises(httpx.RemoteProtocolError):
                self.ask("POST", CREATIONS, body, Idempotency_Key=key, **headers)
            headers = {}
        reply = self.ask("POST", CREATIONS, body, Idempotency_Key=key, **headers)
        amount, asset = int(body["receive"]["amount"]), body["receive"]["asset"]
        if fault == "status=503":
            self.refused(reply, (503, "injected_fault"))
        elif key in self.keys:
            self.repeated(reply, key, CREATIONS, body)
        elif amount + fee_of(amount, self.fee_bps) > MAX_AMOUNT:
            self.refused(reply, INVALID)
        else:
            name = scenario or (None if fault else self.take_override()) or "happy_path"
            other_asset = ASSETS[1 - ASSETS.index(asset)]
            payment = Payment.create(body, name, other_asset, self.fee_bps, self.now)
            assert (reply.status_code, determined(reply.json())) == (201, payment_view(payment))
            assert ("idempotent-replayed" in reply.headers) == (fault == "drop")
            payment_id = reply.json()["id"]
            assert payment_id not in [*self.payments, *self.forgotten], "an id has come back to life"
            self.payments[payment_id] = payment
            self.keys[key] = CREATIONS, body, reply.content
            self.happened[f"created {name}"] += 1

    def take_override(self) -> str | None:
        """The first; one that stands for good is never used up."""
        if not self.overrides:
            return None
        (name, times), *rest = self.overrides
        if times is not None:
            self.overrides = [(name, times - 1), *rest] if times > 1 else rest
        self.happened["overridden"] += 1
        return name

    @rule(key=KEYS, body=REFUSED)
    def create_badly(self, key: str, body: Any) -> None:
        reply = self.ask("POST", CREATIONS, body, Idempotency_Key=key)
        self.refused(reply, CONFLICT if key in self.keys else INVALID)

    @rule(key=KEYS, number=st.integers(1, 2))
    def create_endpoint(self, key: str, number: int) -> None:
        body = {"url": f"https://merchant.example/hooks/{number}"}
        reply = self.ask("POST", ENDPOINTS, body, Idempotency_Key=key)
        if key in self.keys:
            self.repeated(reply, key, ENDPOINTS, body)
        else:
            assert reply.status_code == 201
            self.keys[key] = ENDPOINTS, body, reply.content
            self.endpoints.append(determined(reply.json()))

    @precondition(lambda self: self.keys)
    @rule(which=ANY)
    def retry(self, which: int) -> None:
        key = [*self.keys][which % len(self.keys)]
        path, body, _ = self.keys[key]
        self.repeated(self.ask("POST", path, body, Idempotency_Key=key), key, path, body)

    def repeated(self, reply: httpx.Response, key: str, path: str, body: Any) -> None:
        """The key was used: the same request gets the same bytes, any other a conflict."""
        *was, original = self.keys[key]
        if was == [path, body]:
            assert reply.content == original
            assert reply.headers["idempotent-replayed"] == "true"
            self.happened[f"replayed {'deposit' if path.startswith('/_mock') else path}"] += 1
        else:
            self.refused(reply, CONFLICT)

    def refused(self, reply: httpx.Response, refusal: tuple[int, str]) -> None:
        assert error_of(reply) == refusal
        self.happened[refusal[1]] += 1

    @precondition(lambda self: self.payments)
    @rule(which=ANY, base=BASES, plus=PLUS, other=MOSTLY_NOT, key=DEPOSIT_KEYS)
    def deposit(self, which: int, base: str, plus: int, key: str | None, *, other: bool) -> None:
        payment_id, payment = self.chosen(which)
        received = sum(deposit.amount for deposit in payment.deposits if deposit.matches)
        bases = {"due": payment.due, "half": payment.due // 2, "rest": payment.due - received, "none": 0}
        amount = min(max(1, bases[base] + plus), MAX_AMOUNT)
        body = {"amount": str(amount)} | ({"asset": payment.other_asset} if other else {})
        path = DEPOSITS.format(payment_id)
        reply = self.ask("POST", path, body, Idempotency_Key=key)
        if key in self.keys:
            self.repeated(reply, key, path, body)
            return
        self.simulated[payment_id] += 1
        if self.simulated[payment_id] > MAX_DEPOSITS:
            self.refused(reply, (503, "capacity_exceeded"))
            return
        payment.observe(payment.other_asset if other else payment.asset, amount)
        self.same(reply, payment_id)
        if key:
            self.keys[key] = path, body, reply.content

    @precondition(lambda self: self.payments)
    @rule(
        which=ANY,
        goal=st.sampled_from(["close", "close", "settlement", "settlement"]) | st.integers(0, 9),
        lead=st.tuples(st.integers(0, 2), st.sampled_from([0, 0, 0, 0, 1, -1])),
        funded=st.booleans(),
        whole=st.booleans(),
        deposit=st.fixed_dictionaries({"base": BASES, "plus": PLUS, "other": MOSTLY_NOT}),
        count=st.sampled_from([1, 1, 1, 1, 2, 9]),
    )
    def make_a_tie(
        self,
        which: int,
        goal: Any,
        lead: tuple[int, int],
        deposit: Any,
        count: int,
        *,
        funded: bool,
        whole: bool,
    ) -> None:
        """Make deposits that are observed at a goal (the close of the window, the next step of the
        settlement, or a change of the payment, by its number), are open then, or are rejected or final at it,
        or a millisecond
        off.
        """
        _, payment = self.chosen(which)
        if funded:
            self.deposit(which, "rest", 0, None, other=False)
        before = lead[0] * (1_000 if deposit["other"] else 4_000) + lead[1]
        close = payment.created + WINDOW
        moments = [change.at for change in payment.ahead()]
        if goal == "close":
            moments = [close]
        elif goal == "settlement":
            moments = [one.at for one in payment.ahead() if one.deposit is None and one.at != close]
        elif moments:
            moments = moments[goal % len(moments) :]
        span = moments[0] - before - payment.now if moments else 0
        if span > 0 and whole:
            self.advance(span)
        elif span > 0:
            self.advance_payment(which, span)
        for _ in range(count):
            self.deposit(which, **deposit, key=None)

    @rule(milliseconds=SPANS)
    def advance(self, milliseconds: int) -> None:
        self.pass_time(milliseconds)
        self.check_clock(self.ask("POST", "/_mock/clock/advance", {"seconds": milliseconds / SECOND}))

    @rule(speed=st.sampled_from([0, 0.5, 1, 10, 10_000]))
    def change_speed(self, speed: float) -> None:
        self.speed = speed
        self.check_clock(self.ask("PUT", "/_mock/clock", {"speed": speed}))

    @rule(half=st.integers(1, 5_000))
    def let_real_time_pass(self, half: int) -> None:
        self.server.clock.now += 2 * half  # whole milliseconds at every speed
        self.pass_time(round(2 * half * self.speed))

    def pass_time(self, milliseconds: int) -> None:
        self.now += milliseconds
        for payment in self.payments.values():
            payment.live(payment.now + milliseconds)

    def check_clock(self, reply: httpx.Response) -> None:
        found = reply.json()
        assert (found["now"], found["speed"]) == (rfc3339(self.now), self.speed)
        payments = [(payment, payment.ahead()) for payment in self.payments.values()]
        changes = [self.now + ahead[0].at - payment.now for payment, ahead in payments if ahead]
        change = rfc3339(min(changes)) if changes else None
        assert found.get("next_change_at", change) == change

    @precondition(lambda self: self.payments)
    @rule(which=ANY, milliseconds=SPANS)
    def advance_payment(self, which: int, milliseconds: int) -> None:
        payment_id, payment = self.chosen(which)
        path = f"/_mock/payments/{payment_id}/advance"
        reply = self.ask("POST", path, {"seconds": milliseconds / SECOND})
        payment.live(payment.now + milliseconds)
        self.same(reply, payment_id)

    @precondition(lambda self: self.payments)
    @rule(which=ANY, to=st.sampled_from(["next", "next", "end", *STATUSES]))
    def advance_payment_to(self, which: int, to: str) -> None:
        payment_id, payment = self.chosen(which)
        reply = self.ask("POST", f"/_mock/payments/{payment_id}/advance", {"to": to})
        try:
            payment.live(payment.moment_of(to))
        except Unreachable:
            self.refused(reply, (409, "status_unreachable"))
        else:
            self.same(reply, payment_id)

    def same(self, reply: httpx.Response, payment_id: str) -> None:
        """The reply shows the payment as the model does, and so do its details."""
        payment = self.payments[payment_id]
        assert (reply.status_code, determined(reply.json())) == (200, payment_view(payment))
        assert self.read(f"/_mock/payments/{payment_id}") == details_view(payment, self.now)
        self.happened[payment.status] += 1

    @rule(scenario=SCENARIO_NAMES, times=st.sampled_from([2, 1, None]))
    def override(self, scenario: str, times: int | None) -> None:
        """Those that stand for good come last, and of them there is one."""
        limited = [one for one in self.overrides if one[1] is not None]
        standing = [one for one in self.overrides if one[1] is None and times is not None]
        self.overrides = [*limited, (scenario, times), *standing]
        self.check_overrides(self.ask("POST", "/_mock/next", {"scenario": scenario, "times": times}))

    @rule()
    def remove_overrides(self) -> None:
        self.overrides = []
        assert self.ask("DELETE", "/_mock/next").status_code == 204

    def check_overrides(self, reply: httpx.Response) -> None:
        assert [(one["scenario"], one["times"]) for one in reply.json()["data"]] == self.overrides

    @precondition(lambda self: len(self.payments) + len(self.endpoints) >= 4)  # else it would reset too often
    @rule(body=ORDERS)
    def reset(self, body: Json) -> None:
        assert self.ask("POST", "/_mock/reset").status_code == 204
        self.forgotten += self.payments
        known = [*self.keys]
        self.begin()
        self.happened["reset"] += 1
        self.create(known[0], body, None, None)

    @precondition(lambda self: self.payments)
    @rule(which=ANY)
    def look_at_a_payment(self, which: int) -> None:
        payment_id, payment = self.chosen(which)
        shown = payment_view(payment)
        assert self.read(f"/_mock/payments/{payment_id}") == details_view(payment, self.now)
        assert self.read(f"{CREATIONS}/{payment_id}") == shown
        assert self.read(f"{CREATIONS}/{payment_id}/attempts") == {"data": shown["attempts"]}
        waited = self.read(f"/_mock/payments/{payment_id}/wait?timeout=0&status={payment.status}")
        assert waited == {"reached": True, "possible": True, "payment": shown}
        assert self.read(f"/checkout/{payment_id}.json")["status"] == payment.status

    @rule()
    def look_around(self) -> None:
        assert self.read(ENDPOINTS) == {"data": self.endpoints}
        listed = self.api.get("/_mock/payments?limit=200").json()
        assert [one["id"] for one in listed["data"]] == [*self.payments][::-1]
        newest_first = [*self.payments.values()][::-1]
        shown = [
            {
                **payment_view(payment),
                "scenario": payment.name,
                "age_seconds": (payment.now - payment.created) / SECOND,
                "ahead_seconds": (payment.now - self.now) / SECOND,
            }
            for payment in newest_first
        ]
        assert (listed["total"], determined(listed["data"])) == (len(shown), shown)
        self.check_clock(self.api.get("/_mock/clock"))
        self.check_overrides(self.api.get("/_mock/next"))

    @precondition(lambda self: self.forgotten)
    @rule(
        which=ANY,
        path=st.sampled_from([f"{CREATIONS}/{{}}", f"{CREATIONS}/{{}}/attempts", "/_mock/payments/{}"]),
    )
    def look_for_what_is_forgotten(self, which: int, path: str) -> None:
        payment_id = self.forgotten[which % len(self.forgotten)]
        assert error_of(self.api.get(path.format(payment_id))) == UNKNOWN
        assert error_of(self.api.get(f"/checkout/{payment_id}.json")) == UNKNOWN

    def teardown(self) -> None:
        for number in range(len(self.payments)):
            self.look_at_a_payment(number)
            self.advance_payment_to(number, "end")
        self.look_around()


EXPECTED = {
    *(f"created {scenario}" for scenario in SCENARIOS),
    *(f"replayed {what}" for what in (CREATIONS, ENDPOINTS, "deposit")),
    *(CONFLICT[1], INVALID[1], "injected_fault", "status_unreachable", "overridden", "reset"),
    *STATUSES,
}
"""What must have happened, lest the machine runs without doing anything."""


@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        (8, 30),
        pytest.param(12, STEPS, marks=pytest.mark.ci),
        pytest.param(EXAMPLES, STEPS, marks=pytest.mark.nightly),
    ],
)
@pytest.mark.parametrize("fee_bps", FEES)
def test_requests_in_any_order_do_what_the_model_does(
    contract: Contract, fee_bps: int, examples: int, steps: int
) -> None:
    """At night in an order that differs from run to run."""
    with running_server(Settings(port=0, fee_bps=fee_bps)) as server, Api(server.url, contract) as api:
        happened = Counter[str]()
        state = {"server": server, "api": api, "fee_bps": fee_bps, "happened": happened}
        machine = type("Machine", (Requests,), state)
        run_state_machine_as_test(
            machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                derandomize=examples < EXAMPLES,
                database=None,
                suppress_health_check=list(HealthCheck),
            ),
        )
    missing = EXPECTED - {*happened}
    assert examples < EXAMPLES or not missing, missing
