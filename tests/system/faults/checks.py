"""What a history must not show, whatever happened meanwhile. Every check says in words what it has found.

An outcome that a client cannot know, no reply or 503, is either: done or not. Everything else is certain, and
must fit together.
"""

import json
from bisect import bisect_left
from collections import Counter
from collections.abc import Iterable, Iterator, Sequence
from itertools import accumulate

from tests.system.faults.history import NO_REPLY, REFUSED, Event, Kind, Listed, by_key, by_payment

CREATED, DONE, CONFLICT, MISSING = 201, 200, 409, 404

_KNOWN = {
    Kind.CREATE: (CREATED, CONFLICT, REFUSED),
    Kind.READ: (DONE, REFUSED),
    Kind.ADVANCE: (DONE, CONFLICT, REFUSED),
    Kind.DEPOSIT: (DONE, REFUSED),
    Kind.CLOCK: (DONE, REFUSED),
    Kind.READY: (DONE, REFUSED),
}
_CODES = {
    (Kind.CREATE, CONFLICT): "idempotency_key_reused_with_different_payload",
    (Kind.ADVANCE, CONFLICT): "status_unreachable",
}
_UNAVAILABLE = "store_unavailable"

_ENDS = {"completed", "failed"}
_SETTLED = {"settlement_submitted", *_ENDS}
_PAID = {"settlement_pending", "overpaid_review", "manual_review", *_SETTLED}
_DETECTED = {"payment_finalized", "underpaid_expired", *_PAID}
_LATER = {
    "awaiting_payment": {"payment_detected", "expired", *_DETECTED},
    "payment_detected": _DETECTED,
    "payment_finalized": _PAID,
    "settlement_pending": _SETTLED,
    "settlement_submitted": _ENDS,
    "expired": {"manual_review"},
}
"""What a payment can be after each status, unless it has ended."""


def violations(events: Sequence[Event], listing: Sequence[Listed] | None = None) -> list[str]:
    """All that is wrong with a history, at whose end everything unknown was retried until it was known, and
    with the list of the sandbox's payments after it.
    """
    return [
        *replies(events),
        *keys(events, Kind.CREATE, CREATED),
        *keys(events, Kind.DEPOSIT, DONE),
        *courses(events),
        *deposits(events),
        *clocks(events),
        *([] if listing is None else entries(events, listing)),
    ]


def replies(events: Iterable[Event]) -> Iterator[str]:
    """Each reply is one that the API knows; a refusal says that it is the store, and when to retry."""
    for event in events:
        what = f"{event.kind} {event.key or event.payment}"
        if event.status == NO_REPLY:
            continue
        if event.status == MISSING and event.kind is Kind.READ:
            yield f"{what}: 404 after it was acknowledged"
            continue
        if event.status not in _KNOWN[event.kind]:
            yield f"{what}: status {event.status}: {event.body[:200]!r}"
            continue
        code = _UNAVAILABLE if event.status == REFUSED else _CODES.get((event.kind, event.status))
        if code is not None and event.content["error"]["code"] != code:
            yield f"{what}: {event.status} {event.content['error']['code']}"
        if event.status == REFUSED and event.retry_after is None:
            yield f"{what}: 503 without Retry-After"


def keys(events: Iterable[Event], kind: Kind, success: int) -> Iterator[str]:
    """Each idempotency key stands for one thing: whoever wants it gets the same reply, and whoever wants
    something else gets the conflict. What was acknowledged is never done anew.
    """
    for key, tries in by_key(events, kind).items():
        acknowledged = [event for event in tries if event.status == success]
        if not acknowledged:
            yield f"{kind} {key}: no retry was acknowledged"
            continue
        if len({event.body for event in acknowledged}) > 1:
            yield f"{kind} {key}: the replies differ"
        winners = {event.wanted for event in acknowledged}
        if len(winners) > 1:
            yield f"{kind} {key}: {len(winners)} different bodies were accepted"
        if any(event.status == CONFLICT and event.wanted in winners for event in tries):
            yield f"{kind} {key}: the body that was accepted was refused as different"
        made = [event for event in acknowledged if not event.replayed]
        if len(made) > 1:
            yield f"{kind} {key}: done {len(made)} times"
        first = min(event.ended for event in acknowledged)
        if any(event.began > first for event in made):
            yield f"{kind} {key}: lost, and done anew after it was acknowledged"


def courses(events: Iterable[Event]) -> Iterator[str]:
    """A payment never goes back: who looks after somebody else has looked sees the same state or a later one.
    A state is shown with the same bytes, whoever looks.
    """
    of_payments = by_payment(events, Kind.CREATE, Kind.READ, Kind.ADVANCE, Kind.DEPOSIT)
    for payment, seen in of_payments.items():
        shown = [(event, event.content) for event in seen]
        shown.sort(key=lambda pair: pair[0].ended)
        ends = [event.ended for event, _ in shown]
        # the latest state that somebody had been shown by then; a deposit's reply shows when it is observed
        latest = list(accumulate(((then["updated_at"], then["status"]) for _, then in shown), max))
        bodies: dict[str, bytes] = {}
        for event, now in shown:
            if event.kind is Kind.DEPOSIT or event.replayed:
                continue
            if bodies.setdefault(now["updated_at"], event.body) != event.body:
                yield f"payment {payment}: two states of {now['updated_at']}"
            earlier = bisect_left(ends, event.began)
            if not earlier or event.kind is Kind.CREATE:
                continue
            moment, status = latest[earlier - 1]
            if now["updated_at"] < moment:
                yield f"payment {payment}: back from {moment} to {now['updated_at']}"
            elif now["status"] != status and now["status"] not in _LATER.get(status, ()):
                yield f"payment {payment}: back from {status} to {now['status']}"


def deposits(events: Sequence[Event]) -> Iterator[str]:
    """A deposit with an idempotency key counts once, in every read after its reply. Each has an amount of its
    own.
    """
    made = by_key(events, Kind.DEPOSIT)
    acknowledged: dict[str, list[tuple[float, str]]] = {}
    for tries in made.values():
        done = [event.ended for event in tries if event.status == DONE]
        if done:
            acknowledged.setdefault(tries[0].payment, []).append((min(done), tries[0].wanted))
    amounts = {tries[0].wanted for tries in made.values()}
    for payment, seen in by_payment(events, Kind.READ).items():
        for event in seen:
            counted = Counter(
                deposit["amount"] for deposit in event.content["attempts"][0].get("deposits", ())
            )
            for amount in amounts & counted.keys():
                if counted[amount] > 1:
                    yield f"payment {payment}: the deposit of {amount} counts {counted[amount]} times"
            for since, amount in acknowledged.get(payment, ()):
                if event.began > since and amount not in counted:
                    yield f"payment {payment}: the deposit of {amount} was lost"


def clocks(events: Iterable[Event]) -> Iterator[str]:
    """Virtual time never runs backwards."""
    seen = [event for event in events if event.kind is Kind.CLOCK and event.status == DONE]
    seen.sort(key=lambda event: event.ended)
    ends = [event.ended for event in seen]
    latest = list(accumulate((event.content["now"] for event in seen), max))
    for event in seen:
        earlier = bisect_left(ends, event.began)
        if earlier and event.content["now"] < latest[earlier - 1]:
            yield f"clock: back from {latest[earlier - 1]} to {event.content['now']}"


def entries(events: Iterable[Event], listing: Sequence[Listed]) -> Iterator[str]:
    """The list has exactly one payment for each key, under the id that its clients were told."""
    told = {
        key: {json.loads(event.body)["id"] for event in tries if event.status == CREATED}
        for key, tries in by_key(events, Kind.CREATE).items()
    }
    for payment, times in Counter(entry.payment for entry in listing).items():
        if times > 1:
            yield f"payment {payment}: listed {times} times"
    listed: dict[str, set[str]] = {}
    for entry in listing:
        listed.setdefault(entry.order, set()).add(entry.payment)
    for key, payments in told.items():
        found = listed.get(key, set())
        if len(found) > 1:
            yield f"create {key}: {len(found)} payments are listed"
        if lost := payments - found:
            yield f"create {key}: {', '.join(sorted(lost))} is not listed"
    for order in listed.keys() - told.keys():
        yield f"order {order}: listed, and nobody has asked for it"
