"""What a finding tells: its cause in a line, its story, the payments of its order, its neighbors."""

from collections.abc import Iterable, Sequence

from paymock.client.http import Json
from paymock.rules.faults import FaultKind
from paymock.rules.times import parse_rfc3339
from paymock.schemas.public import PAYMENT_READS
from paymock.verify.oracle import RULES, Severity, Violation
from paymock.verify.order import Order
from paymock.verify.plans import Plan

_NEIGHBORS = 5  # so many other orders are told of, with as many requests each


def payment_of(detail: Json) -> Json:
    """A payment of the order, for a finding."""
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
    conditions = [str(plan.batch)] if plan.batch else []
    for one in plan.injections:
        is_status, operation = one.parsed.kind is FaultKind.STATUS, one.request.operation
        what = f"a reply to {operation} is" if is_status else f"{operation} gets"
        conditions.append(f"{what} `{one.fault}`")
    when = f"when {' and '.join(conditions)}" if conditions else "without a fault"
    if RULES[violation.rule].severity is Severity.ADVICE:
        return when
    if plan.token != order.plan.token:
        what = "ends" if "ended" in order.incident else "goes wrong"
        return f"{when}: the application {what}, which costs another order"
    if order.gave_up and not order.deliveries and len(order.payments) < 2:
        return f"{when}: it {'reads no more' if order.payments else 'sends nothing more'}"
    what = violation.explanation.partition(": ")[0].rstrip(".")
    return f"{when}: {what[0].lower()}{what[1:]}"


def story_of(
    order: Order, plan: Plan, violation: Violation, payments: Sequence[Json], simulates: str
) -> list[str]:
    """What happened, in five lines. `simulates`: what the scenario leads to."""
    faults = [str(plan.batch)] if plan.batch else []
    for one in plan.injections:
        status = f" at `{order.states[one.request.at]}`" if one.request.at in order.states else ""
        faults.append(f"{one.request.operation}{status} gets `{one.fault}`")
    reads = sum(entry.operation in PAYMENT_READS for entry in order.entries)
    seen = [entry.shown for entry in order.entries if entry.shown]
    last = f"`{seen[-1]}`" if seen else "none"
    created = f"{len(order.payments)} payment{'s' if len(order.payments) != 1 else ''} created"
    times = {1: "once", 2: "twice"}.get(order.deliveries, f"{order.deliveries} times")
    goods = f"went out {times}" if order.deliveries else "never went out"
    at = f", first at `{order.delivered_at}`" if order.delivered_at else ""
    shown = {entry.payment_id for entry in order.entries if entry.shown}
    each = [
        f"payment {number}: {payment['scenario']}"
        + ("" if payment["payment_id"] in shown else ", never seen by the application")
        for number, payment in enumerate(payments, 1)
    ]
    course = f"{' · '.join(each)}." if len(each) > 1 else f"scenario {order.plan.scenario}. {simulates}"
    other = "" if plan.token == order.plan.token else ", of another order"
    return [
        f"Order:       {order.order_id}, {course}".rstrip(),
        f"Network:     {'; '.join(faults) or 'no fault'}{other}.",
        f"Application: {created}, {reads} read{'s' if reads != 1 else ''}, the last status it saw is {last}.",
        f"Goods:       {goods}{at}.",
        f"Wrong:       {violation.explanation}",
    ]


def neighbors_of(order: Order, orders: Iterable[Order]) -> list[str]:
    """What other orders did in the second before the request that went wrong: a line for each order."""
    last = [order.last_fault or order.entries[-1]] if order.entries else []
    moment = next((parse_rfc3339(one.at) for one in last), None) or 0
    lines = []
    for other in orders:
        near = [one for one in other.entries if -1000 <= (parse_rfc3339(one.at) or 0) - moment <= 100]
        if near and other.order_id != order.order_id:
            told = [
                f"{one.operation} {f'✗ {one.fault}' if one.fault else one.shown or one.status}"
                for one in near
            ]
            lines.append(f"{other.order_id} ({other.plan.scenario}): {', '.join(told[:_NEIGHBORS])}")
    return lines[-_NEIGHBORS:]


def mixed_up_with(order: Order, orders: Iterable[Order], fulfil_at: Iterable[str]) -> str:
    """A sentence about the other order that became due last, before the goods of this one went out."""
    shown = [
        (other.shown_at[status], status, other.order_id)
        for other in orders
        for status in fulfil_at
        if other is not order and other.shown_at.get(status, order.goods_at) < order.goods_at
    ]
    _, status, order_id = max(shown, default=(0.0, "", ""))
    told = f" Perhaps mixed up with order {order_id}: a reply had just shown it `{status}`."
    return told if order_id else ""
