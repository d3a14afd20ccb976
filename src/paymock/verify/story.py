"""What a finding tells: its cause in a line, its story, the payments of its order, its neighbors."""

from collections.abc import Collection, Iterable, Iterator, Sequence
from math import inf

from paymock.client.http import Json
from paymock.rules.faults import FaultKind
from paymock.rules.scenarios import TERMINAL_STATUSES
from paymock.rules.times import parse_rfc3339
from paymock.verify.checks import Violation, costs_money
from paymock.verify.order import Order
from paymock.verify.plans import Plan
from paymock.verify.report import counted

_NEIGHBORS = 5  # other orders that are told of, with as many requests each
_SAME_POLL = 0.5  # seconds within which replies are of one round of polls
_READ_ON = 0.05  # seconds after its final status in which an order is read again for another


def payment_of(detail: Json) -> Json:
    attempt = detail["payment"]["attempts"][0]
    funding = attempt.get("funding", {})
    received = ("amount_received_pending", "amount_received_finalized")
    return {
        "payment_id": detail["payment"]["id"],
        "scenario": detail["scenario"],
        "timeline": detail["timeline"],
        "due": int(attempt["instructions"]["amounts"]["due"]),
        "received": sum(int(funding.get(name) or 0) for name in received),
        "asset": attempt["instructions"]["asset"],
    }


def cause_of(order: Order, plan: Plan, violation: Violation) -> str:
    """What it takes to break the rule, and of a rule about money what the application does then."""
    traffic, outcome, explanation = order.traffic, order.outcome, violation.explanation
    conditions = [str(plan.batch)] * bool(plan.batch)
    for one in plan.injections:
        is_status, operation = one.parsed.kind is FaultKind.STATUS, one.request.operation
        what = f"a reply to {operation} is" if is_status else f"{operation} gets"
        conditions.append(f"{what} `{one.fault}`")
    when = f"when {' and '.join(conditions)}" if conditions else "without a fault"
    if not costs_money(violation.rule):
        return when
    if plan.token != order.plan.token:
        what = "ends" if "ended" in order.history.incident else "goes wrong"
        return f"{when}: the application {what}, which costs another order"
    is_silent = outcome.gave_up or "it read no more" in explanation
    if is_silent and not outcome.deliveries and len(traffic.payments) < 2:
        silent = f"read no more after {outcome.patience}" if outcome.patience else "reads no more"
        silent += ", perhaps mixed up with another order" if "mixed up" in explanation else ""
        return f"{when}: it {silent if traffic.payments else 'sends nothing more'}"
    what = explanation.partition(": ")[0].rstrip(".")
    return f"{when}: {what[0].lower()}{what[1:]}"


def story_of(
    order: Order, plan: Plan, violation: Violation, payments: Sequence[Json], simulates: str
) -> list[str]:
    """What happened, in five lines. `simulates`: what the scenario leads to."""
    traffic, outcome, states = order.traffic, order.outcome, order.history.states
    faults = [str(plan.batch)] if plan.batch else []
    for one in plan.injections:
        status = f" at `{states[one.request.at]}`" if one.request.at in states else ""
        faults.append(f"{one.request.operation}{status} gets `{one.fault}`")
    last = f"`{traffic.last_shown}`" if traffic.last_shown else "none"
    created, reads = counted(len(traffic.payments), "payment"), counted(traffic.polls, "read")
    times = {1: "once", 2: "twice"}.get(outcome.deliveries, f"{outcome.deliveries} times")
    goods = f"went out {times}" if outcome.deliveries else "never went out"
    at = f", first at `{outcome.delivered_at}`" if outcome.delivered_at else ""
    other = "" if plan.token == order.plan.token else ", of another order"
    course = f"scenario {order.plan.scenario}. {simulates}"
    if len(payments) > 1:
        course = f"{' · '.join(_payments(order, payments))}."
    return [
        f"Order:       {order.order_id}, {course}".rstrip(),
        f"Network:     {'; '.join(faults) or 'no fault'}{other}.",
        f"Application: {created} created, {reads}, the last status it saw is {last}.",
        f"Goods:       {goods}{at}.",
        f"Wrong:       {violation.explanation}",
    ]


def _payments(order: Order, payments: Sequence[Json]) -> Iterator[str]:
    shown = {entry.payment_id for entry in order.traffic.entries if entry.shown}
    for number, payment in enumerate(payments, 1):
        unseen = "" if payment["payment_id"] in shown else ", never seen by the application"
        yield f"payment {number}: {payment['scenario']}{unseen}"


def neighbors_of(order: Order, orders: Iterable[Order]) -> list[str]:
    """What other orders did in the second before the request that went wrong: a line for each order."""
    traffic = order.traffic
    last = [traffic.last_fault or traffic.entries[-1]] if traffic.entries else []
    moment = next((parse_rfc3339(one.at) for one in last), None) or 0
    lines = []
    for other in orders:
        entries = other.traffic.entries
        near = [one for one in entries if -1000 <= (parse_rfc3339(one.at) or 0) - moment <= 100]
        if near and other.order_id != order.order_id:
            results = (f"✗ {one.fault}" if one.fault else one.shown or one.status for one in near)
            told = [f"{one.operation} {result}" for one, result in zip(near, results, strict=True)]
            lines.append(f"{other.order_id} ({other.plan.scenario}): {', '.join(told[:_NEIGHBORS])}")
    return lines[-_NEIGHBORS:]


def mixed_up_with(
    order: Order,
    orders: Iterable[Order],
    statuses: Collection[str] = TERMINAL_STATUSES,
    at: float | None = None,
) -> str:
    """A sentence about the other order that got one of the `statuses` last, before the goods of this one went
    out, or `at` None, before it was read no more: that one was read on, after its final status.
    """
    is_lost = at is None
    latest = order.traffic.heard_at + _SAME_POLL if at is None else at
    earliest = latest - 2 * _SAME_POLL if is_lost else -inf
    found = [
        (other.traffic.shown_at[status], status, other.order_id)
        for other in orders
        for status in statuses
        if other is not order
        and earliest < other.traffic.shown_at.get(status, inf) < latest
        and not (is_lost and other.traffic.heard_at <= other.traffic.shown_at[status] + _READ_ON)
        and not (is_lost and other.traffic.statuses_read.isdisjoint(TERMINAL_STATUSES))
    ]
    _, status, order_id = max(found, default=(0.0, "", ""))
    told = f" Perhaps mixed up with order {order_id}: a reply had just shown it `{status}`"
    return f"{told}{', and it was read on' if is_lost else ''}." if order_id else ""
