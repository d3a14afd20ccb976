"""A sandbox as text: its last payments with their timelines and deposits, its fault rules and its last
requests.
"""

import re
import time
from collections.abc import Callable, Iterable, Iterator
from itertools import chain, groupby
from typing import Any

from paymock.client.http import Json
from paymock.client.text import (
    escape_control,
    fault_rule_line,
    format_seconds,
    marked_timeline_line,
    refusal_reasons,
    without_key,
)

MAX_PAYMENTS = 5
MAX_REQUESTS = 20
"""How many requests are shown, of which equal ones in a row count as one."""

MAX_RULES = 20
MAX_CHANGES = 20
"""How many changes of a payment are shown, and how many deposits."""

TIMEOUT = 10.0
"""Seconds after which the server counts as gone."""

_MAX_READ = 1_000
_MAX_WIDTH = 160
_SECRET = re.compile("(?:0[xX])?[0-9a-fA-F]{33,}|(?:mk_|whsec_)[A-Za-z0-9_-]+")

__tracebackhide__ = True  # pytest shows a failing test with its own lines, not with these


def describe(call: Callable[..., Any], api_key: str) -> str:
    """The last payments and requests of a sandbox, oldest first, and its first fault rules, without keys and
    addresses. `call` carries out an operation of the control API.

    Raises Refused, and Unreachable within some TIMEOUT seconds.
    """
    deadline = time.monotonic() + TIMEOUT

    def read(operation: str, **request: Any) -> Any:
        return call(operation, timeout=max(0.1, deadline - time.monotonic()), **request)

    clock = read("getClock")
    page = read("listPayments", query={"limit": MAX_PAYMENTS})
    rules = read("listFaults")["data"]
    requests = [*_request_lines(read("listRequests", query={"limit": _MAX_READ})["data"][::-1])]
    details = [read("getPaymentDetail", payment_id=payment["id"]) for payment in reversed(page["data"])]
    lines = [f"{clock['now']}, {'speed {speed:g}'.format(**clock) if clock['speed'] else 'frozen'}"]
    lines += ["", f"payments, the last {len(details)}:" if page["next_cursor"] else "payments:"]
    for detail in details:
        lines += _payment_lines(detail)
    if not details:
        lines.append("  none")
    if rules:
        lines += ["", f"fault rules, the first {MAX_RULES}:" if len(rules) > MAX_RULES else "fault rules:"]
        lines += [f"  {fault_rule_line(rule)}" for rule in rules[:MAX_RULES]]
    lines += ["", f"requests, the last {MAX_REQUESTS}:" if len(requests) > MAX_REQUESTS else "requests:"]
    lines += chain.from_iterable(requests[-MAX_REQUESTS:]) if requests else ["  none"]
    return "\n".join(_shown(line, api_key) for line in lines)


def _payment_lines(detail: Json) -> Iterator[str]:
    payment, timeline = detail["payment"], detail["timeline"]
    yield f"  {payment['id']}  {payment['status']}  {detail['scenario']}  order {payment['order_id']}"
    reached = sum(entry["reached"] for entry in timeline)
    first = max(0, min(reached - MAX_CHANGES // 2, len(timeline) - MAX_CHANGES))
    for entry in timeline[first : first + MAX_CHANGES]:
        yield f"    {marked_timeline_line(entry)}"
    attempt = payment["attempts"][0]
    due, asset = attempt["instructions"]["amounts"]["due"], attempt["instructions"]["asset"]
    yield f"    due      {due} {asset}"
    for deposit in attempt.get("deposits", ())[-MAX_CHANGES:]:
        progress = f"{deposit['status']} {deposit['confirmations']}/{deposit['confirmations_required']}"
        yield f"    deposit  {deposit['amount']} {deposit['asset']}, {progress}"


def _request_lines(entries: Iterable[Json]) -> Iterator[list[str]]:
    """The lines of each request, oldest first; of equal ones in a row, those of the last, and how many."""
    for _, group in groupby(entries, _without_time):
        *others, entry = group
        parts = [entry["virtual_at"] or entry["at"], f"{entry['status'] or 'lost':<4}"]
        parts += [f"{entry['method']:<4}", entry["path"], entry["error"] or entry["idempotency"] or ""]
        parts += [f"fault {entry['fault']}"] if entry["fault"] else []
        parts += (
            [f"{len(others) + 1} \N{MULTIPLICATION SIGN} {entry['operation'] or 'the same'}"]
            if others
            else []
        )
        if entry["shown"] and entry["method"] == "GET":
            since = format_seconds(entry["shown_offset_seconds"])
            parts.append(f"{'last ' if others else ''}shown {entry['shown']} at {since} s")
        reasons = [f"    {reason}" for reason in refusal_reasons(entry)]
        yield [f"  {'  '.join(filter(None, parts))}", *reasons]


def _without_time(entry: Json) -> Json:
    """An entry without what differs between equal requests."""
    differs = {"at", "virtual_at", "request_id", "duration_ms", "shown", "shown_offset_seconds"}
    return {name: value for name, value in entry.items() if name not in differs}


def _shown(line: str, api_key: str | None) -> str:
    line = escape_control(_SECRET.sub("***", without_key(line, api_key)))
    return line if len(line) <= _MAX_WIDTH else f"{line[:_MAX_WIDTH]}..."
