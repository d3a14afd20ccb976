"""The story of a sandbox as text: payments with timelines, fault rules, overrides, and last requests."""

import json
from collections.abc import Callable, Iterable, Iterator, Sequence
from functools import partial
from itertools import chain, groupby, islice

from paymock.app.journal import without_times
from paymock.schemas.control import FaultRule, JournalEntry, PaymentDetail, PendingOverride, VirtualClock
from paymock.text import escape_control, format_seconds, format_times, timeline_line

MAX_PAYMENTS = 5
MAX_RULES = 20
MAX_REQUESTS = 20
"""How many requests are shown, of which equal ones in a row count as one."""

MAX_CHANGES = 20
"""How many changes of a payment are shown, and how many deposits."""

_MAX_WIDTH = 160
"""The longest line in bytes of UTF-8. So all limits together keep a story below 64 KiB."""


def story(
    clock: VirtualClock,
    payments: Sequence[PaymentDetail],
    rules: Sequence[FaultRule],
    pending: Sequence[PendingOverride],
    requests: Iterable[JournalEntry],
    *,
    has_more: bool,
    mask: Callable[[str], str],
) -> str:
    """Return what happened: the payments and the `requests` are given newest first, `has_more` says whether
    there are more payments, and `mask` removes secrets from a line.
    """
    lines = [f"{clock.now}, {f'speed {clock.speed:g}' if clock.speed else 'frozen'}"]
    lines += ["", f"payments, the last {len(payments)}:" if has_more else "payments:"]
    lines += [*chain.from_iterable(map(payment_lines, payments))] or ["  none"]
    if rules:
        lines += ["", f"fault rules, the first {MAX_RULES}:" if len(rules) > MAX_RULES else "fault rules:"]
        lines += map(rule_line, rules[:MAX_RULES])
    if pending:
        lines += ["", f"overrides, the first {MAX_RULES}:" if len(pending) > MAX_RULES else "overrides:"]
    for one in pending[:MAX_RULES]:
        prefix, metadata = one.order_id_prefix, one.metadata and json.dumps(one.metadata)
        parts = one.scenario, one.order_id, prefix and f"{prefix}*", metadata
        lines.append("  ".join([f"  {format_times(one.times):<10}", *map(str, filter(None, parts))]))
    # Of equal requests in a row, the last is shown, and how many there were.
    grouped = groupby(requests, partial(without_times, shown=None))
    shown = [[*group] for _, group in islice(grouped, MAX_REQUESTS + 1)]
    lines += ["", f"requests, the last {MAX_REQUESTS}:" if len(shown) > MAX_REQUESTS else "requests:"]
    lines += [*chain.from_iterable(map(request_lines, shown[MAX_REQUESTS - 1 :: -1]))] or ["  none"]
    encoded = [escape_control(mask(line)).encode() for line in lines]
    short = [line if len(line) <= _MAX_WIDTH else line[:_MAX_WIDTH] + b"..." for line in encoded]
    return "".join(f"{line.decode(errors='ignore')}\n" for line in short)


def payment_lines(detail: PaymentDetail) -> Iterator[str]:
    payment, timeline, attempt = detail.payment, detail.timeline, detail.payment.attempts[0]
    yield f"  {payment.id}  {payment.status}  {detail.scenario}  order {payment.order_id}"
    reached = sum(entry.reached for entry in timeline)
    first = max(0, min(reached - MAX_CHANGES // 2, len(timeline) - MAX_CHANGES))
    for entry in timeline[first : first + MAX_CHANGES]:
        change = timeline_line(entry.offset_seconds, entry.status, entry.event)
        yield f"    {'x' if entry.reached else ' '} {change}"
    yield f"    due      {attempt.instructions.amounts.due} {attempt.instructions.asset}"
    for deposit in (attempt.deposits or ())[-MAX_CHANGES:]:
        progress = f"{deposit.status} {deposit.confirmations}/{deposit.confirmations_required}"
        yield f"    deposit  {deposit.amount} {deposit.asset}, {progress}"


def rule_line(rule: FaultRule) -> str:
    parts = [rule.fault, rule.operation, rule.order_id and f"order {rule.order_id}", rule.payment_id]
    parts += [rule.order_id_prefix and f"orders {rule.order_id_prefix}*"]
    parts += [f"skip {rule.skip}" if rule.skip else None, f"seen {rule.seen}", f"applied {rule.applied}"]
    parts += [f"waiting {rule.waiting}" if rule.waiting else None]
    return "  ".join([f"  {format_times(rule.times):<10}", *filter(None, parts)])


def request_lines(equal: Sequence[JournalEntry]) -> Iterator[str]:
    request, *others = equal
    status, method = f"{request.status or 'lost':<4}", f"{request.method:<4}"
    words: list[str | None] = [request.virtual_at or request.at, status, method, request.path]
    words += [request.error or request.idempotency, request.key and f"key {request.key}"]
    words += [request.fault and f"fault {request.fault}"]
    if others:
        words.append(f"{len(equal)} \N{MULTIPLICATION SIGN} {request.operation or 'the same'}")
    if request.shown and request.shown_offset_seconds is not None and request.method == "GET":
        since = format_seconds(request.shown_offset_seconds)
        words.append(f"{'last ' if others else ''}shown {request.shown} at {since} s")
    yield f"  {'  '.join(filter(None, words))}"
    problems = [f"{problem.field}: {problem.message}" for problem in request.details]
    yield from (f"    {reason}" for reason in problems or filter(None, [request.message]))
