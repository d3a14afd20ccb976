"""The rows of the journal: equal requests in a row as one, when they were answered, and the command that
repeats them.
"""

import json
import shlex
from collections.abc import Iterable, Iterator, Sequence
from datetime import datetime
from itertools import groupby
from typing import NamedTuple

import msgspec

from paymock.app.journal import without_times
from paymock.http.routing import METHODS
from paymock.schemas.control import JournalEntry, PaymentDetail
from paymock.text import format_seconds

_CREATION = ("order_id", "receive", "settlement", "pay_with", "refund_to", "metadata")
"""The members of a payment that its creation had."""


class RequestRow(NamedTuple):
    """Equal requests in a row: the newest and the oldest, how many, and when they were answered."""

    entry: JournalEntry
    oldest: JournalEntry
    number: int
    times: str
    command: str


def request_rows(
    entries: Sequence[JournalEntry], detail: PaymentDetail | None = None
) -> Iterator[RequestRow]:
    """The rows of the journal, newest first, at the virtual time of day; with `detail`, those of one payment,
    in seconds after its creation.
    """
    if detail is None:
        times = [(entry.virtual_at or "")[11:19] for entry in entries]
    else:
        oldest_first = ages(entries[::-1], detail.payment.created_at)
        times = [format_seconds(int(age * 10) / 10) for age in oldest_first][::-1]
    for _, group in groupby(zip(entries, times, strict=True), lambda pair: without_times(pair[0])):
        (newest, until), *others = group
        oldest, since = others[-1] if others else (newest, until)
        shown = " to ".join(dict.fromkeys(filter(None, (since, until))))
        yield RequestRow(newest, oldest, len(others) + 1, shown, _command(newest, detail))


def ages(entries: Iterable[JournalEntry], created_at: str) -> Iterator[float]:
    """How old the payment was at each of its requests, oldest first: seconds on its own clock, which never
    goes back.
    """
    created, latest = datetime.fromisoformat(created_at), 0.0
    for entry in entries:
        of_sandbox = (datetime.fromisoformat(entry.virtual_at or created_at) - created).total_seconds()
        own = of_sandbox + (entry.payment_ahead_seconds or 0)
        latest = max(latest, own, entry.shown_offset_seconds or 0)
        yield latest


def _command(entry: JournalEntry, detail: PaymentDetail | None) -> str:
    """The command that repeats a request. The journal keeps no bodies: that of a creation is known by its
    payment, and read from a file otherwise. The page knows what stands for {origin} and {key}.
    Empty for a method that is none of HTTP: the client may have made it up.
    """
    if entry.method not in METHODS:
        return ""
    url = shlex.quote(f"{{origin}}{entry.path}")
    lines = [f"curl -sS -X {entry.method} {url}", '-H "Authorization: Bearer {key}"']
    if entry.method == "POST":
        lines += ["-H 'Content-Type: application/json'", '-H "Idempotency-Key: again-$(date +%s)"']
        body = "@body.json"
        if detail is not None:
            payment = msgspec.to_builtins(detail.payment)
            creation = {name: payment[name] for name in _CREATION if payment[name] is not None}
            lines.append(f"-H {shlex.quote(f'X-Mock-Scenario: {detail.scenario}')}")
            body = shlex.quote(json.dumps(creation, ensure_ascii=False))
        lines.append(f"-d {body}")
    return " \\\n  ".join(lines)
