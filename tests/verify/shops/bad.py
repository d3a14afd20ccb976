"""Shops with exactly one bug each. The docstring says which; `paid_at` says it in the table.

The bugs of the first four sections cost money. Those of the last are lesser: nothing is lost by them.
"""

import contextlib
import http.client
import math
import sys
import time
from collections.abc import Callable
from itertools import pairwise
from typing import TypeVar
from uuid import uuid4

import httpx
import msgspec

from paymock.schemas.public import Payment
from tests.support.specification import COURSES
from tests.verify.shops.base import CLOSED, creation
from tests.verify.shops.good import (
    TRIES,
    AttemptReader,
    Backoff,
    Bare,
    Breaker,
    FulfilmentTable,
    Json,
    KeyFromOrderId,
    LatePayments,
    Outbox,
    Poller,
    RetryingClient,
    ThreadPerOrder,
    Worker,
    key_of,
    sums,
)

T = TypeVar("T")


def status_of(error: Exception) -> int | None:
    """The status of a reply; None if there was none."""
    return error.response.status_code if isinstance(error, httpx.HTTPStatusError) else None


# Free goods


def paid_at(*statuses: str) -> type[Poller]:
    class PaidAt(Poller):
        paid = frozenset(statuses)
        closed = CLOSED | paid

    return PaidAt


class DeliversInReview(Outbox):
    """Takes `manual_review` for a formality: whatever is reviewed has been paid."""

    paid = ("completed", "manual_review")


class DeliversLatePayments(LatePayments):
    """Takes funds that come after `expired` for a payment like any other."""

    def decide(self, order_id: str, payment: Json) -> None:
        super().decide(order_id, payment)
        self.delivered[order_id] += order_id in self.paid_late


class DeliversByFunding(Poller):
    """Decides by the funds, not by the status: delivers as soon as what is final covers what is due."""

    def decide(self, order_id: str, payment: Json) -> None:
        received, due = sums(payment)
        if received >= due:
            payment = {**payment, "status": "completed"}
        super().decide(order_id, payment)


class ForgivesDust(Poller):
    """Takes an underpaid payment for paid if the sums are equal as floats: a raw unit may be missing."""

    def decide(self, order_id: str, payment: Json) -> None:
        if payment["status"] == "underpaid_expired" and math.isclose(*sums(payment), rel_tol=1e-6):
            payment = {**payment, "status": "completed"}
        super().decide(order_id, payment)


class DeliversByDeposit(AttemptReader):
    """Delivers once a deposit is final, whatever its amount."""

    def poll(self, order_id: str, payment_id: str) -> None:
        payment = self.read(payment_id)
        [attempt] = self.attempts(payment_id)
        if any(deposit["status"] == "finalized" for deposit in attempt.get("deposits", [])):
            payment = {**payment, "status": "completed"}
        self.decide(order_id, payment)


class DeliversWhenServiceIsDown(Poller):
    """Delivers after three failed polls in a row, to be nice to a customer who has surely paid."""

    patience = 3

    def read(self, payment_id: str) -> Json:
        payment = super().read(payment_id)
        self.counts[payment_id] = 0
        return payment

    def failed(self, order_id: str, error: Exception) -> None:
        payment_id = self.open[order_id]
        self.counts[payment_id] += 1
        if self.counts[payment_id] == self.patience:
            self.decide(order_id, {"status": "completed"})


class DeliversUnknownReplies(Poller):
    """Knows the statuses that are not paid, and takes any other reply for paid; an error, too."""

    unpaid = {status for course in COURSES.values() for _, status in course} - {"completed"}

    def read(self, payment_id: str) -> Json:
        reply = self.http.get(f"/v1/payments/{payment_id}")
        payment = dict(reply.json()) if reply.headers["Content-Type"] == "application/json" else {}
        return payment if payment.get("status") in self.unpaid else {"status": "completed"}


class DeliversWhenConfirmationFails(Poller):
    """Takes a failed poll after `settlement_submitted` for the end of a settlement that went well."""

    def decide(self, order_id: str, payment: Json) -> None:
        self.counts[order_id] += payment["status"] == "settlement_submitted"
        super().decide(order_id, payment)

    def failed(self, order_id: str, error: Exception) -> None:
        if self.counts[order_id]:
            self.decide(order_id, {"status": "completed"})


# Lost sales


class DropsAfterFailedPoll(Poller):
    """Drops an order after one failed poll."""

    failure: type[Exception] = httpx.HTTPError
    patience = 1

    def failed(self, order_id: str, error: Exception) -> None:
        self.counts[order_id] += isinstance(error, self.failure)
        if self.counts[order_id] == self.patience:
            del self.open[order_id]


class DropsAfterThreeFailures(DropsAfterFailedPoll):
    """Drops an order after three failed polls, whether in a row or not."""

    patience = 3


class DropsOnTimeout(DropsAfterFailedPoll):
    """Takes a poll that times out for a payment that timed out."""

    failure = httpx.TimeoutException


class DropsWhenTooFast(Worker):
    """Takes a 429 for a ban: the order is not polled any more."""

    refused = 429

    def failed(self, order_id: str, error: Exception) -> None:
        super().failed(order_id, error)
        if status_of(error) == self.refused:
            del self.open[order_id]


class DropsWhenUnauthorized(DropsWhenTooFast):
    """Takes one 401 for the end of its account."""

    refused = 401


class DropsWhenNotFound(DropsWhenTooFast):
    """Takes a 404 for a payment that was deleted, though a replica may lag behind."""

    refused = 404


class GivesUpWithBackoff(Backoff):
    """Drops an order after three failed reads in a row, with growing pauses."""

    def failed(self, order_id: str, error: Exception) -> None:
        super().failed(order_id, error)
        if self.counts[order_id] == 3:
            del self.open[order_id]


class PollingLoopDies(Worker):
    """The thread that polls all orders expects no failure, and ends at the first one."""

    failures = ()


class BreakerStaysOpen(Breaker):
    """Nothing closes the circuit breaker again."""

    seconds = math.inf


class BudgetIsNotRefilled(Worker):
    """All orders share twenty retries, which nothing refills; after them, a failed read drops its order."""

    budget = 20

    def failed(self, order_id: str, error: Exception) -> None:
        super().failed(order_id, error)
        self.budget -= 1
        if self.budget < 0:
            del self.open[order_id]


class DropsOnHtml(Poller):
    """Decodes a reply before it looks at its status: the HTML of a gateway cancels the order."""

    def read(self, payment_id: str) -> Json:
        reply = self.http.get(f"/v1/payments/{payment_id}")
        try:
            payment = dict(reply.json())
        except ValueError:
            return {"status": "failed"}
        reply.raise_for_status()
        return payment


class DropsOnTruncatedReply(Bare):
    """Takes a reply that was cut short for damaged data, and cancels the order."""

    def call(self, method: str, path: str, body: Json | None = None, key: str | None = None) -> Json:
        try:
            return super().call(method, path, body, key)
        except http.client.IncompleteRead:
            if method == "GET":
                return {"status": "failed"}
            raise


class DropsWhenThreadDies(ThreadPerOrder):
    """The thread of an order expects no connection to fail while it polls, and ends when one does."""

    def send(self, http: httpx.Client, order_id: str, payment: Json | None) -> httpx.Response:
        try:
            return super().send(http, order_id, payment)
        except httpx.TransportError:
            if payment is None:
                raise
            sys.exit()  # of the thread only


class ForgetsUnansweredOrder(Poller):
    """Swallows a failed creation: the customer is told that all is well, and nobody tries again."""

    def order(self, order_id: str) -> None:
        with contextlib.suppress(httpx.HTTPError):
            super().order(order_id)


class RefusesToOrderAgain(Poller):
    """Remembers that an order failed, and refuses it ever after, though its payment may exist."""

    def order(self, order_id: str) -> None:
        if self.counts[order_id]:
            raise ValueError(f"order {order_id} has failed")
        try:
            super().order(order_id)
        except httpx.HTTPError as error:
            self.counts[order_id] += self.is_final(error)
            raise

    def is_final(self, error: httpx.HTTPError) -> bool:
        return True


class ClosesBeforeDelivery(AttemptReader):
    """Closes the order, reads the attempts for the receipt, and only then delivers: between, it may fail."""

    def poll(self, order_id: str, payment_id: str) -> None:
        payment = self.read(payment_id)
        if payment["status"] in self.closed:
            del self.open[order_id]
        if payment["status"] in self.paid:
            self.attempts(payment_id)
            self.delivered[order_id] += 1


class StrictStateMachine(Poller):
    """Ignores a status that does not follow the last one, and with it all that come later. It misses one when
    a reply is late, which it takes for outdated.
    """

    latest = 0.25
    steps = frozenset(
        step for course in COURSES.values() for step in pairwise(status for _, status in course)
    )

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.http.timeout = httpx.Timeout(1)
        self.statuses: dict[str, str] = {}

    def poll(self, order_id: str, payment_id: str) -> None:
        began = time.monotonic()
        payment = self.read(payment_id)
        if time.monotonic() - began < self.latest:
            self.decide(order_id, payment)

    def decide(self, order_id: str, payment: Json) -> None:
        if (self.statuses.setdefault(order_id, "awaiting_payment"), payment["status"]) in self.steps:
            self.statuses[order_id] = payment["status"]
            super().decide(order_id, payment)


class ReadsByReplay(Poller):
    """Polls by sending the creation again, whose reply never changes."""

    def poll(self, order_id: str, payment_id: str) -> None:
        reply = self.http.post(
            "/v1/payments", json=creation(order_id), headers={"Idempotency-Key": key_of(order_id)}
        )
        self.decide(order_id, reply.raise_for_status().json())


# Double deliveries


class DeliversEachSighting(FulfilmentTable):
    """Delivers each time it reads `completed`, and reads it more than once."""

    def deliveries(self, order_id: str) -> int:
        return self.counts[order_id]


class DeliversBeforeConfirmingRead(Poller):
    """Delivers, reads the payment once more to be sure, and delivers again when that read fails."""

    def decide(self, order_id: str, payment: Json) -> None:
        if payment["status"] in self.paid:
            self.delivered[order_id] += 1
            self.read(self.open[order_id])
        if payment["status"] in self.closed:
            del self.open[order_id]


class DeliversBeforeReceipt(AttemptReader):
    """Delivers, reads the attempts for the receipt, and closes the order last: a failure leaves it open."""

    def poll(self, order_id: str, payment_id: str) -> None:
        payment = self.read(payment_id)
        if payment["status"] in self.paid:
            self.delivered[order_id] += 1
            self.attempts(payment_id)
        if payment["status"] in self.closed:
            del self.open[order_id]


class TwoWorkers(ThreadPerOrder):
    """Two workers follow each order, and neither looks whether the other has delivered."""

    def order(self, order_id: str) -> None:
        super().order(order_id)
        super().order(order_id)


class QueuesOrderTwice(AttemptReader):
    """Queues an order before it reads the invoice; when that fails, the next try queues it again."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.queue: list[tuple[str, str]] = []

    def order(self, order_id: str) -> None:
        payment_id = self.create(creation(order_id), key_of(order_id))
        self.queue.append((order_id, payment_id))
        self.attempts(payment_id)

    def tick(self) -> None:
        for entry in list(self.queue):
            with contextlib.suppress(httpx.HTTPError):
                payment = self.read(entry[1])
                if payment["status"] in CLOSED:
                    self.queue.remove(entry)
                    self.delivered[entry[0]] += payment["status"] == "completed"


# Double payments


class NewKeyPerTry(RetryingClient):
    """Retries a creation with a new key."""

    def create(self, body: Json, key: str) -> str:
        return super().create(body, str(uuid4()))


class KeyWithTimestamp(Poller):
    """The key has the time in it: a customer who orders again gets another payment."""

    def create(self, body: Json, key: str) -> str:
        return super().create(body, f"{key}-{time.time_ns()}")


class TwoKeys(Poller):
    """The first try has a key of its own, and the retries of the worker have another."""

    def order(self, order_id: str) -> None:
        try:
            super().order(order_id)
        except httpx.HTTPError:
            self.counts[order_id] = 1

    def tick(self) -> None:
        for order_id in list(self.counts):
            with contextlib.suppress(httpx.HTTPError):
                self.open[order_id] = self.create(creation(order_id), f"retry-{order_id}")
                del self.counts[order_id]
        super().tick()


class PaysAgainAfterFailedRead(Poller):
    """Takes a first read that fails for a payment that is not there, and creates another."""

    def decide(self, order_id: str, payment: Json) -> None:
        self.counts[order_id] += 1
        super().decide(order_id, payment)

    def failed(self, order_id: str, error: Exception) -> None:
        self.counts[order_id] += 1
        if self.counts[order_id] == 1:
            self.open[order_id] = self.create(creation(order_id), f"{key_of(order_id)}-again")


class ChecksThenCreates(KeyFromOrderId):
    """Looks for the key of an order, and stores a random one only once it was used: the same order may look
    meanwhile.
    """

    def create(self, body: Json, key: str) -> str:
        used = self.keys.get(key) or str(uuid4())
        try:
            return super().create(body, used)
        finally:
            self.keys[key] = used


# No payment at all


class KeyPerCustomer(Worker):
    """One key for all orders of a customer. When the service refuses the second, nobody is told."""

    def order(self, order_id: str) -> None:
        try:
            super().order(order_id)
        except httpx.HTTPStatusError as error:
            if status_of(error) != 409:
                raise

    def create(self, body: Json, key: str) -> str:
        return super().create(body, "payment-of-customer-1")


# A changed body: the service refuses it, and the shop has no payment to follow


class ChangesBody(Poller):
    """Retries with the same key and another body: `metadata` counts the tries. A lost sale, too."""

    def create(self, body: Json, key: str) -> str:
        self.counts[key] += 1
        return super().create({**body, "metadata": {"try": self.counts[key]}}, key)


# Lesser


class ChangesBodyOnce(ChangesBody):
    """Retries with the same key and another body; refused, it sends the first body again."""

    def create(self, body: Json, key: str) -> str:
        try:
            return super().create(body, key)
        except httpx.HTTPStatusError as error:
            if status_of(error) != 409:
                raise
            self.counts[key] = 0
            return super().create(body, key)


class PollsForever(Poller):
    """Never stops polling; what it has delivered it remembers."""

    closed = frozenset()

    def decide(self, order_id: str, payment: Json) -> None:
        if not self.delivered[order_id]:
            super().decide(order_id, payment)


def _tried(call: Callable[..., T], *args: object) -> T:
    """The result of a call, which is repeated at once when it fails."""
    for _ in range(TRIES - 1):
        with contextlib.suppress(httpx.HTTPError):
            return call(*args)
    return call(*args)


class IgnoresRetryAfter(Poller):
    """Sends a creation again at once when the service asks to wait."""

    def create(self, body: Json, key: str) -> str:
        return _tried(super().create, body, key)


class PollsAgainAtOnce(Poller):
    """Reads again at once when the service asks to wait."""

    def read(self, payment_id: str) -> Json:
        return _tried(super().read, payment_id)


class GivesUpWhenRefused(RefusesToOrderAgain):
    """Takes a 429 for a final no: the order has no payment, and never gets one."""

    def is_final(self, error: httpx.HTTPError) -> bool:
        return status_of(error) == 429


class DecodesStrictly(Poller):
    """Refuses a payment with members that it does not know, and reads it again with each tick."""

    failures = (*Poller.failures, msgspec.ValidationError)
    payment = msgspec.defstruct("StrictPayment", Payment.__struct_fields__, forbid_unknown_fields=True)

    def read(self, payment_id: str) -> Json:
        payment = super().read(payment_id)
        msgspec.convert(payment, self.payment)
        return payment
