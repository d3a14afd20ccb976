"""Shops with exactly one bug each. The docstring says which; `paid_at` says it in the table.

The bugs of the first four sections cost money. Those of the last are lesser: nothing is lost by them.
"""

import contextlib
import math
import time
from collections.abc import Callable
from typing import TypeVar
from uuid import uuid4

import httpx
import msgspec

from paymock.rules.scenarios import PaymentStatus
from paymock.schemas.public import Payment
from tests.support.specification import COURSES
from tests.verify.shops.base import CLOSED, creation
from tests.verify.shops.good import (
    TRIES,
    AttemptReader,
    Breaker,
    FulfilmentTable,
    Json,
    KeyFromOrderId,
    Outbox,
    Poller,
    RetryingClient,
    TakesLateMoney,
    ThreeItems,
    TwoReaders,
    WelcomesCustomer,
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


class DeliversLatePayments(Poller):
    """Takes funds that come after `expired` for a payment like any other."""

    paid = frozenset({"completed", "manual_review"})


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


class DeliversUnknownReplies(Poller):
    """Knows the statuses that are not paid, and takes any other reply for paid; an error, too."""

    unpaid = {status for course in COURSES.values() for _, status in course} - {"completed"}

    def get(self, payment_id: str) -> httpx.Response:
        return self.http.get(f"/v1/payments/{payment_id}")

    def read(self, payment_id: str) -> Json:
        reply = self.get(payment_id)
        payment = dict(reply.json()) if reply.headers["Content-Type"] == "application/json" else {}
        return payment if payment.get("status") in self.unpaid else {"status": "completed"}


class TakesAnySuccess(DeliversUnknownReplies):
    """Takes any reply with 2xx for paid that has no other status, such as a page of a proxy."""

    def get(self, payment_id: str) -> httpx.Response:
        return super().get(payment_id).raise_for_status()


class ReleasesCustomer(Poller):
    """All orders are of one customer: as soon as one of them is paid, all of them are released."""

    def decide(self, order_id: str, payment: Json) -> None:
        super().decide(order_id, payment)
        if payment["status"] in self.paid:
            self.delivered.update([*self.open])

    def deliveries(self, order_id: str) -> int:
        return self.delivered[order_id] > 0


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


class DeliversOnReturn(WelcomesCustomer):
    """Delivers when the customer has come back, paid or not."""

    def welcome(self, order_id: str) -> None:
        self.delivered[order_id] = 1

    def decide(self, order_id: str, payment: Json) -> None:
        if not self.delivered[order_id] or payment["status"] not in self.paid:
            super().decide(order_id, payment)


class DropsOnTruncatedReply(DropsAfterFailedPoll):
    """Takes a reply that was cut short for damaged data, and cancels the order."""

    failure = httpx.RemoteProtocolError


class DeliversWhenServiceIsDown(DropsAfterThreeFailures):
    """Delivers after three failed polls, to be nice to a customer who has surely paid."""

    def failed(self, order_id: str, error: Exception) -> None:
        super().failed(order_id, error)
        self.delivered[order_id] += order_id not in self.open


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


class PollingLoopDies(Worker):
    """The thread that polls all orders expects no failure, and ends at the first one."""

    failures = ()


class BreakerStaysOpen(Breaker):
    """Nothing closes the circuit breaker again."""

    seconds = math.inf


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
        except httpx.HTTPError:
            self.counts[order_id] += 1
            raise


class SkipsItems(ThreeItems):
    """Closes an order when the read before an item fails."""

    def decide(self, order_id: str, payment: Json) -> None:
        try:
            super().decide(order_id, payment)
        except httpx.HTTPError:
            del self.open[order_id]


class GivesUpAfterReads(Poller):
    """Reads an open payment 12 times: a customer who is slow has paid for nothing."""

    def decide(self, order_id: str, payment: Json) -> None:
        self.counts[order_id] += 1
        super().decide(order_id, payment)
        if self.counts[order_id] >= 12:
            self.open.pop(order_id, None)


class GivesUpByTheClock(Worker):
    """Reads an open payment for two seconds."""

    def poll(self, order_id: str, payment_id: str) -> None:
        super().poll(order_id, payment_id)
        if time.monotonic() > self.not_before.setdefault(f"end of {order_id}", time.monotonic() + 2):
            self.open.pop(order_id, None)


class MixesUpReplies(Worker):
    """Takes each tenth reply for that of the order that was read before."""

    last: Json | None = None

    def read(self, payment_id: str) -> Json:
        payment, last = super().read(payment_id), self.last
        self.last = payment
        self.counts["reads"] += 1
        return last if last and self.counts["reads"] % 10 == 0 else payment


class LosesEveryEighth(Poller):
    """A task is now and then faster than the commit of its order, finds nothing and is dropped."""

    def order(self, order_id: str) -> None:
        super().order(order_id)
        self.counts["orders"] += 1
        if self.counts["orders"] % 8 == 0:
            del self.open[order_id]


class DropsRestOfRound(Poller):
    """A read that fails ends the round, and what was to be read after it is not queued again."""

    def tick(self) -> None:
        waiting = list(self.open.items())
        try:
            while waiting:
                self.poll(*waiting.pop(0))
        except self.failures:
            for order_id, _ in waiting:
                del self.open[order_id]


class LastReplyWins(TwoReaders):
    """Takes the reply that comes last for the newest, also of an order that is closed."""

    def decide(self, order_id: str, payment: Json) -> None:
        super().decide(order_id, payment)
        self.statuses[order_id] = payment["status"]


class CancelsWithNewest(TakesLateMoney):
    """Reads only the newest payment of an order: nobody sees that an older one is paid late."""

    def decide(self, name: str, payment: Json) -> None:
        super().decide(name, payment)
        if f"{name}+" in self.open:
            del self.open[name]


class ClosesBeforeDelivery(AttemptReader):
    """Closes the order, reads the attempts for the receipt, and only then delivers: between, it may fail."""

    def poll(self, order_id: str, payment_id: str) -> None:
        payment = self.read(payment_id)
        if payment["status"] in self.closed:
            del self.open[order_id]
        if payment["status"] in self.paid:
            self.attempts(payment_id)
            self.delivered[order_id] += 1


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


# Double payments


class NewKeyPerTry(RetryingClient):
    """Retries a creation with a new key."""

    def create(self, body: Json, key: str) -> str:
        return super().create(body, str(uuid4()))


class PaysAgainAfterFailedRead(Poller):
    """Takes a first read that fails for a payment that is not there, and creates another."""

    def decide(self, order_id: str, payment: Json) -> None:
        self.counts[order_id] += 1
        super().decide(order_id, payment)

    def failed(self, order_id: str, error: Exception) -> None:
        self.counts[order_id] += 1
        if self.counts[order_id] == 1:
            self.open[order_id] = self.create(creation(order_id), f"{key_of(order_id)}-again")


class LooksForPayment(KeyFromOrderId):
    """Makes a payment with a random key if it knows of none: two tabs make two, and so does a retry."""

    def order(self, order_id: str) -> None:
        if order_id not in self.open:
            super().order(order_id)

    def create(self, body: Json, key: str) -> str:
        return super().create(body, str(uuid4()))


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


class ForgetsExpired(Poller):
    """Reads an expired payment no more: nobody sees money that comes late."""

    further_reads = 0


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


class KnowsAllStatuses(Poller):
    """Closes an order when it does not know the status of its payment."""

    def decide(self, order_id: str, payment: Json) -> None:
        if payment["status"] in PaymentStatus.__members__.values():
            super().decide(order_id, payment)
        else:
            del self.open[order_id]


class DecodesStrictly(Poller):
    """Refuses a payment with members that it does not know, and reads it again with each tick."""

    failures = (*Poller.failures, msgspec.ValidationError)
    payment = msgspec.defstruct("StrictPayment", Payment.__struct_fields__, forbid_unknown_fields=True)

    def read(self, payment_id: str) -> Json:
        payment = super().read(payment_id)
        msgspec.convert(payment, self.payment)
        return payment
