"""Consistency checks of a history. Each yields a description of every violation.

A request whose outcome the client cannot know (no reply, or 503) may have been carried out or not. All other
outcomes are certain and must be consistent with each other.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from tests.system.faults.history import (
    CONFLICT,
    CREATED,
    DONE,
    NO_REPLY,
    NOT_FOUND,
    UNAVAILABLE,
    Event,
    Kind,
    ListedPayment,
    by_key,
    by_payment,
)

_STATUSES = {
    Kind.CREATE: (CREATED, CONFLICT, UNAVAILABLE),
    Kind.READ: (DONE, UNAVAILABLE),
    Kind.ADVANCE: (DONE, CONFLICT, UNAVAILABLE),
    Kind.DEPOSIT: (DONE, UNAVAILABLE),
    Kind.CLOCK: (DONE, UNAVAILABLE),
    Kind.READY: (DONE, UNAVAILABLE),
}
_CODES = {
    (Kind.CREATE, CONFLICT): "idempotency_key_reused_with_different_payload",
    (Kind.ADVANCE, CONFLICT): "status_unreachable",
}

_FINAL = {"completed", "failed"}
_SETTLING = {"settlement_submitted", *_FINAL}
_PAID = {"settlement_pending", "overpaid_review", "manual_review", *_SETTLING}
_DETECTED = {"payment_finalized", "underpaid_expired", *_PAID}
_SUCCESSORS = {
    "awaiting_payment": {"payment_detected", "expired", *_DETECTED},
    "payment_detected": _DETECTED,
    "payment_finalized": _PAID,
    "settlement_pending": _SETTLING,
    "settlement_submitted": _FINAL,
    "expired": {"manual_review"},
}
"""The statuses that can follow, directly or indirectly. Others are final."""


def violations(events: Sequence[Event], listing: Sequence[ListedPayment] | None = None) -> list[str]:
    """All violations in a history at whose end every unknown request was retried until its outcome was known,
    and in the list of the sandbox's payments after it.
    """
    return [
        *check_replies(events),
        *check_idempotency(events, Kind.CREATE, CREATED),
        *check_idempotency(events, Kind.DEPOSIT, DONE),
        *check_timelines(events),
        *check_deposits(events),
        *check_clocks(events),
        *([] if listing is None else check_listing(events, listing)),
    ]


def check_replies(events: Iterable[Event]) -> Iterator[str]:
    """Each reply has a status of the API. 503 has the code of an unavailable store, and `Retry-After`."""
    for event in events:
        if event.status == NO_REPLY:
            continue
        if event.status == NOT_FOUND and event.kind is Kind.READ:
            yield f"{event}: 404 after it was acknowledged"
            continue
        if event.status not in _STATUSES[event.kind]:
            yield f"{event}: status {event.status}: {event.body[:200]!r}"
            continue
        unavailable = event.status == UNAVAILABLE
        code = "store_unavailable" if unavailable else _CODES.get((event.kind, event.status))
        if code is not None and event.content["error"]["code"] != code:
            yield f"{event}: {event.status} {event.content['error']['code']}"
        if unavailable and event.retry_after is None:
            yield f"{event}: 503 without Retry-After"


def check_idempotency(events: Iterable[Event], kind: Kind, success: int) -> Iterator[str]:
    """All requests with one key and body get the same reply, and requests with another body get a conflict.
    What was acknowledged is never executed again.
    """
    for key, attempts in by_key(events, kind).items():
        acknowledged = [event for event in attempts if event.status == success]
        if not acknowledged:
            yield f"{kind} {key}: no retry was acknowledged"
            continue
        if len({event.body for event in acknowledged}) > 1:
            yield f"{kind} {key}: the replies differ"
        accepted = {event.amount for event in acknowledged}
        if len(accepted) > 1:
            yield f"{kind} {key}: {len(accepted)} different bodies were accepted"
        if any(event.status == CONFLICT and event.amount in accepted for event in attempts):
            yield f"{kind} {key}: the accepted body was refused as different"
        executed = [event for event in acknowledged if not event.replayed]
        if len(executed) > 1:
            yield f"{kind} {key}: executed {len(executed)} times"
        first = min(event.ended for event in acknowledged)
        if any(event.started > first for event in executed):
            yield f"{kind} {key}: lost, and executed again after it was acknowledged"


def check_timelines(events: Iterable[Event]) -> Iterator[str]:
    """A request that starts after another has ended sees the same state of a payment, or a later one. Each
    state is shown with the same bytes.
    """
    of_payments = by_payment(events, Kind.CREATE, Kind.READ, Kind.ADVANCE, Kind.DEPOSIT)
    for payment, successes in of_payments.items():
        shown = sorted(((event, event.content) for event in successes), key=lambda pair: pair[0].ended)
        ends = [event.ended for event, _ in shown]
        # The latest state shown by then. The reply to a deposit already shows when it will be observed.
        latest = list(accumulate(((state["updated_at"], state["status"]) for _, state in shown), max))
        bodies: dict[str, bytes] = {}
        for event, state in shown:
            if event.kind is Kind.DEPOSIT or event.replayed:
                continue
            if bodies.setdefault(state["updated_at"], event.body) != event.body:
                yield f"payment {payment}: two states of {state['updated_at']}"
            earlier = bisect_left(ends, event.started)
            if not earlier or event.kind is Kind.CREATE:
                continue
            moment, status = latest[earlier - 1]
            if state["updated_at"] < moment:
                yield f"payment {payment}: back from {moment} to {state['updated_at']}"
            elif state["status"] != status and state["status"] not in _SUCCESSORS.get(status, ()):
                yield f"payment {payment}: back from {status} to {state['status']}"


def check_deposits(events: Sequence[Event]) -> Iterator[str]:
    """A deposit with an idempotency key counts once, in every read after its reply. All amounts differ."""
    by_deposit = by_key(events, Kind.DEPOSIT)
    acknowledged: dict[str, list[tuple[float, str]]] = {}
    for attempts in by_deposit.values():
        ends = [event.ended for event in attempts if event.status == DONE]
        if ends:
            acknowledged.setdefault(attempts[0].payment, []).append((min(ends), attempts[0].amount))
    amounts = {attempts[0].amount for attempts in by_deposit.values()}
    for payment, reads in by_payment(events, Kind.READ).items():
        for event in reads:
            deposits = event.content["attempts"][0].get("deposits", ())
            counts = Counter(deposit["amount"] for deposit in deposits)
            for amount in amounts & counts.keys():
                if counts[amount] > 1:
                    yield f"payment {payment}: the deposit of {amount} counts {counts[amount]} times"
            for since, amount in acknowledged.get(payment, ()):
                if event.started > since and amount not in counts:
                    yield f"payment {payment}: the deposit of {amount} was lost"


def check_clocks(events: Iterable[Event]) -> Iterator[str]:
    """Virtual time never goes back."""
    replies = [event for event in events if event.kind is Kind.CLOCK and event.status == DONE]
    replies.sort(key=lambda event: event.ended)
    ends = [event.ended for event in replies]
    latest = list(accumulate((event.content["now"] for event in replies), max))
    for event in replies:
        earlier = bisect_left(ends, event.started)
        if earlier and event.content["now"] < latest[earlier - 1]:
            yield f"clock: back from {latest[earlier - 1]} to {event.content['now']}"


def check_listing(events: Iterable[Event], listing: Sequence[ListedPayment]) -> Iterator[str]:
    """The list has exactly one payment for each idempotency key, with the id of the reply."""
    created = {
        key: {json.loads(event.body)["id"] for event in attempts if event.status == CREATED}
        for key, attempts in by_key(events, Kind.CREATE).items()
    }
    for payment, count in Counter(entry.payment for entry in listing).items():
        if count > 1:
            yield f"payment {payment}: listed {count} times"
    listed: dict[str, set[str]] = {}
    for entry in listing:
        listed.setdefault(entry.order, set()).add(entry.payment)
    for key, payments in created.items():
        of_key = listed.get(key, set())
        if len(of_key) > 1:
            yield f"create {key}: {len(of_key)} payments are listed"
        if missing := payments - of_key:
            yield f"create {key}: {', '.join(sorted(missing))} is not listed"
    for order in listed.keys() - created.keys():
        yield f"order {order}: listed, but no request has created it"
