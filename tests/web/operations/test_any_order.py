"""Requests in any order, against a small model: a sandbox does what its documents say, whatever came before.

Two sandboxes are told the same and must answer the same; only one of them is read in between, so reading
changes nothing. The server's clock stands still but where the machine moves it.
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

from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS, PaymentStatus
from tests.support.client import Api, error_of, order
from tests.support.contract import Contract, Json
from tests.support.model import Queue, Remembered, check_money, milliseconds
from tests.support.server import RunningServer
from tests.support.specification import FINAL_STATUS
from tests.support.twins import Twins

EXAMPLES, STEPS = 80, 30
"""With so many, all that is EXPECTED happens."""

KEYS = st.sampled_from([f"order-{number}-payment" for number in range(12)])
DEPOSIT_KEYS = st.none() | st.sampled_from(["first-transfer", "second-transfer", "order-1-payment"])
ORDERS = st.sampled_from(
    [
        order(),
        order(metadata={"customer_id": "c_2"}),
        order(receive__amount="1", expires_at=...),
        order(receive__asset="USDC", pay_with=[{"chain": "bsc", "asset": "USDC"}]),
    ]
)
REFUSED = st.sampled_from([order(order_id=""), order(pay_with=[]), order(receive__amount="1.5"), {}, []])
FAULTS = st.sampled_from([None, None, "drop", "status=503"])
SCENARIO_NAMES = st.sampled_from(sorted(SCENARIOS))
SECONDS = st.sampled_from([0.001, 2, 5, 8, 13, 30, 45])
ANY = st.integers(0, 99)
TARGETS = st.just("next") | st.just("end") | st.sampled_from([status.value for status in PaymentStatus])
MANY = 4
"""So many resources make a sandbox worth a reset."""

CREATIONS, ENDPOINTS = "/v1/payments", "/v1/webhooks"
CONFLICT = (409, "idempotency_key_reused_with_different_payload")
UNKNOWN = (404, "payment_not_found")


class Requests(RuleBasedStateMachine):
    """What a client may ask for, in any order."""

    server: ClassVar[RunningServer]
    twins: ClassVar[Twins]
    happened: ClassVar[Counter[str]] = Counter()

    def __init__(self) -> None:
        super().__init__()
        self.twins.begin((f"mk_test_{uuid.uuid4().hex}", f"mk_test_{uuid.uuid4().hex}"))
        self.forgotten: list[Remembered] = []
        self.begin()

    def begin(self) -> None:
        """A sandbox that nobody has touched."""
        self.now, self.speed = self.server.clock.now, 1
        self.payments: list[Remembered] = []
        self.endpoints: list[Json] = []
        self.keys: dict[str, tuple[Any, bytes]] = {}
        self.queue = Queue()
        self.journal: list[tuple[str, str, int, str | None]] = []

    @initialize(scenario=SCENARIO_NAMES)
    def begin_with_a_payment(self, scenario: str) -> None:
        self.create("order-0-payment", order(), scenario, None)

    @rule(key=KEYS, body=ORDERS)
    def create_without_headers(self, key: str, body: Json) -> None:
        self.create(key, body, None, None)

    @rule(key=KEYS, body=ORDERS, scenario=st.none() | SCENARIO_NAMES, fault=FAULTS)
    def create(self, key: str, body: Json, scenario: str | None, fault: str | None) -> None:
        headers = {"Idempotency-Key": key}
        headers |= {"X-Mock-Scenario": scenario} if scenario else {}
        headers |= {"X-Mock-Fault": fault} if fault else {}
        replies = self.twins.ask("POST", CREATIONS, body=body, headers=headers)
        if fault == "status=503":
            self.refused(replies, CREATIONS, (503, "injected_fault"))
        elif key in self.keys:
            self.repeated(replies, key, (CREATIONS, body), CREATIONS)
        else:
            pending = None if scenario or fault else self.queue.take()
            self.happened["overridden" if pending else "left alone"] += 1
            taken = scenario or pending or DEFAULT_SCENARIO
            if fault == "drop":
                assert replies == []
                self.note("POST", CREATIONS, 0, "new")
                replies = self.twins.ask("POST", CREATIONS, body=body, headers={"Idempotency-Key": key})
                self.note("POST", CREATIONS, 201, "replayed")
            else:
                self.note("POST", CREATIONS, 201, "new")
            self.happened[f"created {taken}"] += 1
            self.created(key, body, taken, replies)

    def created(self, key: str, body: Json, scenario: str, replies: list[httpx.Response]) -> None:
        payment: Json = replies[0].json()
        assert payment["status"] == "awaiting_payment"
        assert milliseconds(payment["created_at"]) == self.now
        assert {name: payment[name] for name in body if body[name] is not None} == body
        known = {one for payment in (*self.payments, *self.forgotten) for one in payment.ids}
        ids = tuple(str(reply.json()["id"]) for reply in replies)
        assert not known & {*ids}, "an id has come back to life"
        check_money(payment)
        self.payments.append(Remembered(ids, scenario, payment))
        self.keys[key] = ((CREATIONS, body), replies[0].content)

    @rule(key=KEYS, body=REFUSED)
    def create_badly(self, key: str, body: Any) -> None:
        replies = self.twins.ask("POST", CREATIONS, body=body, headers={"Idempotency-Key": key})
        self.refused(replies, CREATIONS, CONFLICT if key in self.keys else (422, "validation_failed"))

    @rule(key=KEYS, number=st.integers(1, 2))
    def create_endpoint(self, key: str, number: int) -> None:
        body = {"url": f"https://merchant.example/hooks/{number}"}
        replies = self.twins.ask("POST", ENDPOINTS, body=body, headers={"Idempotency-Key": key})
        if key in self.keys:
            self.repeated(replies, key, (ENDPOINTS, body), ENDPOINTS)
        else:
            assert replies[0].status_code == 201
            self.note("POST", ENDPOINTS, 201, "new")
            self.keys[key] = ((ENDPOINTS, body), replies[0].content)
            self.endpoints.append(
                {name: value for name, value in replies[0].json().items() if name != "secret"}
            )

    @precondition(lambda self: self.keys)
    @rule(which=ANY)
    def retry(self, which: int) -> None:
        key = [*self.keys][which % len(self.keys)]
        (path, *about, body), _ = self.keys[key]
        replies = self.twins.ask("POST", path, *about, body=body, headers={"Idempotency-Key": key})
        self.repeated(replies, key, self.keys[key][0], path)

    def repeated(self, replies: list[httpx.Response], key: str, asked: Any, path: str) -> None:
        """The key was used: the same request gets the same bytes, any other a conflict."""
        was, original = self.keys[key]
        if not replies:  # dropped
            self.note("POST", path, 0, "replayed" if was == asked else "conflict")
        elif was == asked:
            assert replies[0].content == original
            assert replies[0].headers["idempotent-replayed"] == "true"
            self.note("POST", path, replies[0].status_code, "replayed")
            self.happened[f"replayed {asked[0]}"] += 1
        else:
            self.refused(replies, path, CONFLICT)

    def refused(self, replies: list[httpx.Response], path: str, refusal: tuple[int, str]) -> None:
        assert error_of(replies[0]) == refusal
        self.note("POST", path, refusal[0], "conflict" if refusal == CONFLICT else None)
        self.happened[refusal[1]] += 1

    @precondition(lambda self: self.payments)
    @rule(
        which=ANY,
        share=st.sampled_from(["one", "half", "rest", "all", "more"]),
        asset=st.sampled_from([None, None, "USDT", "USDC"]),
        key=DEPOSIT_KEYS,
    )
    def deposit(self, which: int, share: str, asset: str | None, key: str | None) -> None:
        payment = self.chosen(which)
        half = payment.due // 2
        amounts = {"one": 1, "half": half or 1, "rest": payment.due - half, "all": payment.due}
        body = {"amount": str(amounts.get(share, payment.due + 1))} | ({"asset": asset} if asset else {})
        headers = {"Idempotency-Key": key} if key else {}
        path = "/_mock/payments/{}/deposits"
        replies = self.twins.ask("POST", path, payment, body=body, headers=headers)
        asked = (path, payment, body)
        if key in self.keys:
            self.repeated(replies, key, asked, path)
            return
        assert replies[0].status_code == 200
        payment.paid.append((body["amount"], asset or payment.seen["receive"]["asset"]))
        payment.see(replies[0].json(), self.now)
        self.happened["deposits"] += 1
        if key:
            self.keys[key] = (asked, replies[0].content)
        assert self.read(f"{CREATIONS}/{payment.ids[0]}") == replies[0].json()

    @rule(seconds=SECONDS)
    def advance(self, seconds: float) -> None:
        self.now += round(seconds * 1000)
        self.check_clock(self.twins.ask("POST", "/_mock/clock/advance", body={"seconds": seconds})[0])

    @rule(speed=st.sampled_from([0, 0, 1, 10]))
    def change_speed(self, speed: int) -> None:
        self.speed = speed
        self.check_clock(self.twins.ask("PUT", "/_mock/clock", body={"speed": speed})[0])

    @rule(seconds=SECONDS)
    def let_real_time_pass(self, seconds: float) -> None:
        self.server.clock.advance(seconds)
        self.now += round(seconds * 1000) * self.speed

    def check_clock(self, reply: httpx.Response) -> None:
        assert milliseconds(reply.json()["now"]) == self.now
        assert reply.json()["speed"] == self.speed

    @precondition(lambda self: self.payments)
    @rule(which=ANY, seconds=SECONDS)
    def advance_payment(self, which: int, seconds: float) -> None:
        payment = self.chosen(which)
        payment.time_offset += round(seconds * 1000)
        [reply, _] = self.twins.ask("POST", "/_mock/payments/{}/advance", payment, body={"seconds": seconds})
        payment.see(reply.json(), self.now)

    @precondition(lambda self: self.payments)
    @rule(which=ANY, to=TARGETS)
    def advance_payment_to(self, which: int, to: str) -> None:
        payment = self.chosen(which)
        path = f"/_mock/payments/{payment.ids[0]}"
        before = self.read(path)
        [reply, _] = self.twins.ask("POST", "/_mock/payments/{}/advance", payment, body={"to": to})
        after = self.read(path)
        ahead = [entry["status"] for entry in before["timeline"] if not entry["reached"]]
        if reply.status_code == 409:
            assert error_of(reply) == (409, "status_unreachable")
            assert before == after
            assert before["payment"]["status"] == to or to not in ahead
            assert to != "end"
            assert to != "next" or not ahead
            self.happened["unreachable"] += 1
            return
        time_offset = milliseconds(after["now"]) - self.now
        assert time_offset >= payment.time_offset
        payment.time_offset = time_offset
        payment.see(reply.json(), self.now)
        if to == "end":
            assert all(entry["reached"] for entry in after["timeline"])
            assert payment.paid or payment.seen["status"] == FINAL_STATUS[payment.scenario]
            self.happened[f"ended {payment.seen['status']}"] += 1
        elif to != "next":
            assert payment.seen["status"] == to

    @rule(scenario=SCENARIO_NAMES, times=st.sampled_from([2, 1, None]))
    def override(self, scenario: str, times: int | None) -> None:
        self.queue.add(scenario, times)
        self.check_queue(
            self.twins.ask("POST", "/_mock/next", body={"scenario": scenario, "times": times})[0]
        )

    def check_queue(self, reply: httpx.Response) -> None:
        assert [(one["scenario"], one["times"]) for one in reply.json()["data"]] == [*self.queue]

    @rule(what=st.sampled_from(["next", "requests"]))
    def forget(self, what: str) -> None:
        assert self.twins.ask("DELETE", f"/_mock/{what}")[0].status_code == 204
        if what == "next":
            self.queue = Queue()
        else:
            self.journal.clear()

    @precondition(lambda self: len(self.payments) + len(self.endpoints) >= MANY)
    @rule()
    def reset(self) -> None:
        assert self.twins.ask("POST", "/_mock/reset")[0].status_code == 204
        self.forgotten += self.payments
        known = [*self.keys]
        self.begin()
        self.happened["reset"] += 1
        self.create(known[0], order(), None, None)

    @precondition(lambda self: self.payments)
    @rule(which=ANY)
    def look_at_a_payment(self, which: int) -> None:
        payment = self.chosen(which)
        payment_id = payment.ids[0]
        detail = self.read(f"/_mock/payments/{payment_id}")
        shown: Json = detail["payment"]
        payment.see(shown, self.now)
        assert milliseconds(detail["now"]) == self.now + payment.time_offset
        assert detail["ahead_seconds"] == payment.time_offset / 1000
        assert detail["scenario"] == payment.scenario
        assert self.read(f"{CREATIONS}/{payment_id}") == shown
        assert self.read(f"{CREATIONS}/{payment_id}/attempts") == {"data": shown["attempts"]}
        waited = self.read(f"/_mock/payments/{payment_id}/wait?timeout=0&status={shown['status']}")
        assert waited == {"reached": True, "possible": True, "payment": shown}
        assert self.read(f"/checkout/{payment_id}.json")["status"] == shown["status"]

    @rule()
    def look_around(self) -> None:
        assert self.read(ENDPOINTS) == {"data": self.endpoints}
        page = self.read("/_mock/payments?limit=200")
        listed = page["data"]
        assert page["total"] == len(listed)
        assert [one["id"] for one in listed] == [one.ids[0] for one in reversed(self.payments)]
        for payment, one in zip(reversed(self.payments), listed, strict=True):
            assert one.pop("scenario") == payment.scenario
            age = self.now + payment.time_offset - milliseconds(one["created_at"])
            assert one.pop("age_seconds") == age / 1000
            assert one.pop("ahead_seconds") == payment.time_offset / 1000
            payment.see(one, self.now)
        api = self.twins.first
        self.check_clock(api.get("/_mock/clock"))
        self.check_queue(api.get("/_mock/next"))
        requests = self.read("/_mock/requests?limit=1000")["data"]
        journal = [(one["method"], one["path"], one["status"], one["idempotency"]) for one in requests]
        assert journal == self.journal[::-1]

    @precondition(lambda self: self.forgotten)
    @rule(
        which=ANY, path=st.sampled_from(["/v1/payments/{}", "/v1/payments/{}/attempts", "/_mock/payments/{}"])
    )
    def look_for_what_is_forgotten(self, which: int, path: str) -> None:
        payment_id = self.forgotten[which % len(self.forgotten)].ids[0]
        api = self.twins.first
        assert error_of(api.get(path.format(payment_id))) == UNKNOWN
        assert error_of(api.get(f"/checkout/{payment_id}.json")) == UNKNOWN
        if path.startswith("/v1"):
            self.note("GET", path.format(payment_id), 404)

    def teardown(self) -> None:
        """The twin, which nobody has read, stands where the other does."""
        for number, payment in enumerate(self.payments):
            [reply, _] = self.twins.ask("GET", "/_mock/payments/{}", payment)
            payment.see(reply.json()["payment"], self.now)
            self.advance_payment_to(number, "end")
        self.look_around()
        for path in ("/_mock/payments", ENDPOINTS, "/_mock/next", "/_mock/clock"):
            self.twins.ask("GET", path)
        self.twins.ask("POST", "/_mock/reset")

    def chosen(self, which: int) -> Remembered:
        return self.payments[which % len(self.payments)]

    def read(self, path: str) -> Any:
        """What the first sandbox answers, twice, as its journal says."""
        if path.startswith("/v1"):
            self.note("GET", path, 200)
            self.note("GET", path, 200)
        return self.twins.read(path)

    def note(self, method: str, path: str, status: int, idempotency: str | None = None) -> None:
        """What the journal of the first sandbox is to say, which is nothing of the control API."""
        if path.startswith("/v1"):
            self.journal.append((method, path, status, idempotency))


EXPECTED = {
    *(f"created {scenario}" for scenario in SCENARIOS),
    *(f"replayed {path}" for path in (CREATIONS, ENDPOINTS, "/_mock/payments/{}/deposits")),
    *("idempotency_key_reused_with_different_payload", "validation_failed", "injected_fault"),
    *("deposits", "overridden", "unreachable", "reset"),
    *(
        f"ended {status}"
        for status in ("completed", "expired", "failed", "manual_review", "underpaid_expired")
    ),
    "ended overpaid_review",
}
"""What must have happened, lest the machine runs without doing anything."""


@pytest.mark.parametrize(
    ("examples", "steps"),
    [
        (2, 20),
        pytest.param(15, STEPS, marks=pytest.mark.ci),
        pytest.param(EXAMPLES, STEPS, marks=pytest.mark.nightly),
    ],
)
def test_requests_in_any_order_do_what_the_model_expects(
    server: RunningServer, contract: Contract, examples: int, steps: int
) -> None:
    class Machine(Requests):
        happened: ClassVar[Counter[str]] = Counter()

    Machine.server = server
    with (
        Api(server.url, contract) as first,
        httpx.Client(base_url=server.url) as other,
        httpx.Client(base_url=server.url) as again,
    ):
        Machine.twins = Twins(first, other, again)
        run_state_machine_as_test(
            Machine,
            settings=settings(
                max_examples=examples,
                stateful_step_count=steps,
                derandomize=True,
                suppress_health_check=list(HealthCheck),
            ),
        )
    assert Machine.happened
    if examples == EXAMPLES:
        assert not EXPECTED - {*Machine.happened}
