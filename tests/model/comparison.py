"""Histories, played to the reference model and to a server at once."""

import difflib
import json
import socket
import uuid
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import groupby
from typing import Any

from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from paymock.settings import Settings
from tests.model.histories import ASSETS, HISTORIES, MAX_AMOUNT, History, Operation, operations
from tests.model.reference_model import SECOND, Json, Payment, Unreachable, fee_of
from tests.model.reference_views import UNDETERMINED, details_view, payment_view, rfc3339
from tests.support import raw
from tests.support.server import RunningServer, running_server

FEES = (0, 1, 100, 9_999)
"""Basis points: at least 1 raw unit, roundings up, nearly the whole amount."""

TIMEOUT_SECONDS = 60
"""After this time a request counts as hanging."""

REFUSED = (422, "validation_failed")
UNREACHABLE = (409, "status_unreachable")

Reply = tuple[int, Any]
"""Status, and the body or the code of the error."""


class ModelSandbox:
    """A sandbox of the reference model."""

    def __init__(self, fee_bps: int, now: int) -> None:
        self.fee_bps, self.now, self.speed = fee_bps, now, 1.0
        self.payments: dict[int, Payment] = {}
        self.originals: dict[int, Reply] = {}

    def create(self, number: int, scenario: str, amount: int, asset: str) -> Reply:
        """Decisions, "Amounts": `due` fits in 256 bits."""
        if amount + fee_of(amount, self.fee_bps) > MAX_AMOUNT:
            return REFUSED
        body = order(number, amount, asset)
        payment = Payment.create(body, scenario, other_asset(asset), self.fee_bps, self.now)
        self.payments[number] = payment
        self.originals[number] = 201, payment_view(payment)
        return self.originals[number]

    def create_again(self, number: int, *_: Any) -> Reply:
        """Decisions, "Replay": the original, whatever has happened since."""
        return self.originals[number]

    def deposit(self, number: int, amount: int, asset: str | None) -> Reply:
        payment = self.payments[number]
        payment.observe(asset or payment.asset, amount)
        return self.read(number)

    def advance(self, milliseconds: int) -> Reply:
        self.now += milliseconds
        for payment in self.payments.values():
            payment.live(payment.now + milliseconds)
        return self.clock()

    def advance_payment(self, number: int, milliseconds: int) -> Reply:
        payment = self.payments[number]
        payment.live(payment.now + milliseconds)
        return self.read(number)

    def advance_to(self, number: int, target: str) -> Reply:
        payment = self.payments[number]
        try:
            payment.live(payment.moment_of(target))
        except Unreachable:
            return UNREACHABLE
        return self.read(number)

    def set_speed(self, speed: float) -> Reply:
        self.speed = speed
        return self.clock()

    def pass_time(self, milliseconds: int) -> None:
        self.advance(round(milliseconds * self.speed))

    def clock(self) -> Reply:
        return 200, {"now": rfc3339(self.now), "speed": self.speed}

    def read(self, number: int) -> Reply:
        return 200, payment_view(self.payments[number])

    def details(self, number: int) -> Reply:
        return 200, details_view(self.payments[number], self.now)


class ServerSandbox:
    """A sandbox of a server, over one connection for all."""

    def __init__(self, connection: socket.socket) -> None:
        self.connection = connection
        self.headers = {
            "Authorization": f"Bearer mk_test_{uuid.uuid4().hex}",
            "Content-Type": "application/json",
        }
        self.ids: dict[int, str] = {}

    def create(self, number: int, scenario: str, amount: int, asset: str) -> Reply:
        headers = {"Idempotency-Key": f"order-{number:04}", "X-Mock-Scenario": scenario}
        status, body = self._call("POST", "/v1/payments", order(number, amount, asset), headers)
        if status == 201:
            self.ids[number] = body["id"]
        return status, determined(body)

    create_again = create

    def deposit(self, number: int, amount: int, asset: str | None) -> Reply:
        body = {"amount": str(amount)} if asset is None else {"amount": str(amount), "asset": asset}
        return self._control(number, "/deposits", body)

    def advance(self, milliseconds: int) -> Reply:
        return self._call("POST", "/_mock/clock/advance", {"seconds": milliseconds / SECOND})

    def advance_payment(self, number: int, milliseconds: int) -> Reply:
        return self._control(number, "/advance", {"seconds": milliseconds / SECOND})

    def advance_to(self, number: int, target: str) -> Reply:
        return self._control(number, "/advance", {"to": target})

    def set_speed(self, speed: float) -> Reply:
        return self._call("PUT", "/_mock/clock", {"speed": speed})

    def read(self, number: int) -> Reply:
        status, body = self._call("GET", f"/v1/payments/{self.ids[number]}")
        return status, determined(body)

    def details(self, number: int) -> Reply:
        return self._control(number, "")

    def _control(self, number: int, path: str, body: Json | None = None) -> Reply:
        method = "GET" if body is None else "POST"
        status, answer = self._call(method, f"/_mock/payments/{self.ids[number]}{path}", body)
        return status, determined(answer)

    def _call(self, method: str, path: str, body: Json | None = None, headers: Json | None = None) -> Reply:
        data = None if body is None else json.dumps(body).encode()
        request = raw.request(method, path, {**self.headers, **(headers or {})}, data)
        [reply] = raw.exchange_on(self.connection, request)
        answer = json.loads(reply.body)
        return reply.status, answer["error"]["code"] if reply.status >= 400 else answer


def order(number: int, amount: int, asset: str) -> Json:
    address = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    return {
        "order_id": f"order-{number}",
        "receive": {"chain": "bsc", "asset": asset, "amount": str(amount), "address": address},
        "settlement": {"mode": "same_chain_merchant_payout"},
        "pay_with": [{"chain": "bsc", "asset": asset}],
    }


def other_asset(asset: str) -> str:
    return ASSETS[1 - ASSETS.index(asset)]


def determined(value: Any) -> Any:
    if isinstance(value, dict):
        return {name: determined(one) for name, one in value.items() if name not in UNDETERMINED}
    return [determined(one) for one in value] if isinstance(value, list) else value


class HistoryComparison:
    """Plays histories to the model and to a server, and compares all that they answer.

    Beside the sandbox that is compared, a second one on the server gets the same operations in another order:
    at one moment, payments take turns the other way round, and transfers too. Spans are split. It is read
    once, at the end. Both must then show the same.
    """

    def __init__(self, server: RunningServer, connection: socket.socket, fee_bps: int) -> None:
        self.clock, self.connection, self.fee_bps = server.clock, connection, fee_bps
        self.shown: set[str] = set()
        """Statuses of payments and codes of errors that the model has answered."""

    def play(self, history: History, pieces: int) -> None:
        """Raises AssertionError with the operations so far and both answers."""
        self.log: list[Operation] = []
        self.model = ModelSandbox(self.fee_bps, self.clock.now)
        self.server, self.reordered = ServerSandbox(self.connection), ServerSandbox(self.connection)
        moment: list[Operation] = []
        for number, step in enumerate(history):
            for operation in operations(step, self.model.payments, number):
                self.log.append(operation)
                if operation.name in ("advance", "set_speed", "pass_time"):
                    self._carry_out(self.reordered, _reordered(moment), pieces)
                    moment.clear()
                    if operation.name == "pass_time":
                        self.model.pass_time(*operation.arguments)
                        self.clock.now += operation.arguments[0]
                    else:
                        self._compare(*operation)
                        self._carry_out(self.reordered, [operation], pieces)
                    self._read(self.model.payments)
                else:
                    moment += self._apply(operation)
        self._carry_out(self.reordered, _reordered(moment), pieces)
        for payment in self.model.payments:
            self._compare("details", (payment,))
            self._same(
                "read once, in another order",
                _outline(self.server.details(payment)),
                _outline(self.reordered.details(payment)),
            )
            self._apply(Operation("advance_to", (payment, "end")))

    def _read(self, payments: Iterable[int]) -> None:
        for payment in payments:
            self._compare("read", (payment,))

    def _apply(self, operation: Operation) -> list[Operation]:
        """Compares an operation on one payment; returns what the other order does in its place."""
        name, arguments = operation
        payment = self.model.payments.get(operation.payment)
        before = payment.now if payment else 0
        reply = self._compare(name, arguments)
        if name == "create" and reply[0] != 201:
            return []
        if operation.payment in self.model.payments:
            self._read([operation.payment])
            self._compare("details", (operation.payment,))
        if payment is not None and name == "advance_to":
            span = payment.now - before
            return [Operation("advance_payment", (operation.payment, span))] if span else []
        return [operation]

    def _compare(self, name: str, arguments: tuple[Any, ...]) -> Reply:
        expected: Reply = getattr(self.model, name)(*arguments)
        actual: Reply = getattr(self.server, name)(*arguments)
        self._same(f"{name}{arguments}", expected, actual)
        body = expected[1]
        self.shown.add(body if isinstance(body, str) else body.get("status", name))
        return expected

    def _same(self, what: str, expected: Reply, actual: Reply) -> None:
        if expected != actual:
            left, right = (
                json.dumps(side, indent=1, sort_keys=True).split("\n") for side in (expected, actual)
            )
            diff = "\n".join(difflib.unified_diff(left, right, "model", "server", lineterm="", n=4))
            calls = "\n".join(f"  {name}{arguments}" for name, arguments in self.log)
            raise AssertionError(f"{what}\nafter\n{calls}\n{diff}")

    @staticmethod
    def _carry_out(sandbox: ServerSandbox, done: list[Operation], pieces: int) -> None:
        for name, arguments in done:
            *others, last = arguments
            for part in _split(last, pieces) if name in ("advance", "advance_payment") else [last]:
                reply = getattr(sandbox, name)(*others, part)
                assert reply[0] < 300, (name, arguments, reply)


def _reordered(moment: list[Operation]) -> list[Operation]:
    by_payment = sorted(moment, key=lambda operation: -operation.payment)
    runs = [
        [*run] for _, run in groupby(by_payment, key=lambda operation: (operation.payment, operation.name))
    ]
    return [operation for run in runs for operation in (run[::-1] if run[0].name == "deposit" else run)]


def _split(milliseconds: int, pieces: int) -> list[int]:
    size = -(-milliseconds // pieces)
    return [min(size, milliseconds - start) for start in range(0, milliseconds, size)]


def _outline(reply: Reply) -> Reply:
    """Details of a payment without the order of what happens at the same millisecond."""
    status, details = reply
    deposits = details["payment"]["attempts"][0].get("deposits", [])
    deposits.sort(key=lambda deposit: (deposit["observed_at"], deposit["asset"], int(deposit["amount"])))
    details["timeline"] = {entry["at"]: entry["status"] for entry in details["timeline"]}
    return status, details


@contextmanager
def connected_player(fee_bps: int) -> Iterator[HistoryComparison]:
    with (
        running_server(Settings(port=0, fee_bps=fee_bps)) as server,
        socket.create_connection(("127.0.0.1", server.port), TIMEOUT_SECONDS) as connection,
    ):
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        yield HistoryComparison(server, connection, fee_bps)


def compare_histories(fee_bps: int, examples: int, *, derandomize: bool) -> set[str]:
    """Play random histories to a server with that fee; returns what they have shown: statuses, codes of
    errors. Raises AssertionError for the smallest history that differs.
    """
    with connected_player(fee_bps) as player:

        @settings(
            max_examples=examples,
            derandomize=derandomize,
            database=None,
            deadline=None,
            print_blob=True,
            suppress_health_check=[HealthCheck.too_slow],
        )
        @given(history=HISTORIES, pieces=st.integers(1, 10))
        def compare(history: History, pieces: int) -> None:
            player.play(history, pieces)

        compare()
    return player.shown
