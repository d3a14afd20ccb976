"""What the commands print: data on standard output, messages on standard error."""

import errno
import json
import os
import re
import select
import stat
import sys
import time
from collections.abc import Sequence
from contextlib import suppress
from typing import Any, Protocol, TypeVar

import click
import msgspec

from paymock.cli.money import amount
from paymock.schemas.control import PaymentDetail, TimelineEntry
from paymock.schemas.public import Attempt, Payment

_UNPRINTABLE = re.compile(
    "[\x00-\x1f\x7f-\x9f"  # control characters
    "\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069"  # what changes the direction of the text around it
    "\u2028\u2029]"  # the ends of lines and paragraphs
)
_STATUS_WIDTH = 20


class Awaited(Protocol):
    """Something whose coming a socket announces."""

    def fileno(self) -> int:
        """The socket."""


W = TypeVar("W", bound=Awaited)


def say(*lines: str) -> None:
    """Prints lines of data. Nothing that a server says can steer the terminal or fail to be printed."""
    encoding = sys.stdout.encoding or "utf-8"
    for line in lines:
        click.echo(printable(line).encode(encoding, "backslashreplace").decode(encoding))


def printable(text: str) -> str:
    """The text on one line, with escapes like `\\u202e` in place of what would steer a terminal."""
    return _UNPRINTABLE.sub(lambda match: match[0].encode("unicode_escape").decode(), text)


def say_json(value: Any) -> None:
    """Prints one JSON document on a line of its own, in UTF-8 whatever the terminal speaks."""
    click.echo(msgspec.json.encode(value))


def note(message: str) -> None:
    """Prints a message for the person at the terminal."""
    click.echo(message, err=True)


def idle(seconds: float | None, awaited: Sequence[W] = ()) -> list[W]:
    """Does nothing for so many seconds, or until something of what is awaited comes, which is returned.

    Raises BrokenPipeError as soon as nobody reads standard output any more.
    """
    if not hasattr(select, "poll"):  # on Windows, where nothing tells of it
        if not awaited:
            time.sleep(seconds or 0)
            return []
        return select.select(awaited, (), (), seconds)[0]
    polled = select.poll()
    sockets = {one.fileno(): one for one in awaited}
    for number in sockets:
        polled.register(number, select.POLLIN)
    output = _pipe()
    if output is not None:
        polled.register(output, 0)  # errors alone
    come = [number for number, _ in polled.poll(None if seconds is None else seconds * 1000)]
    if output in come:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
    return [sockets[number] for number in come]


def _pipe() -> int | None:
    """Standard output, if it is something that a reader can leave."""
    with suppress(OSError):  # a stand-in for it need not be a file
        number = sys.stdout.fileno()
        kind = os.fstat(number).st_mode
        if stat.S_ISFIFO(kind) or stat.S_ISSOCK(kind):
            return number
    return None


def payment_lines(payment: Payment) -> list[str]:
    """A payment as people read it."""
    [attempt, *_] = payment.attempts
    asked = attempt.instructions
    receive = payment.receive
    rows = [
        ("order", payment.order_id),
        ("due", f"{amount(asked.amounts.due, asked.chain, asked.asset)} on {asked.chain}"),
        ("pay to", f"{asked.invoice_address} (a mock: nobody holds its key)"),
        *_received(attempt),
        ("merchant", f"{amount(receive.amount, receive.chain, receive.asset)} to {receive.address}"),
        ("fee", amount(asked.amounts.fee, asked.chain, asked.asset)),
        *([("metadata", json.dumps(payment.metadata, ensure_ascii=False))] if payment.metadata else []),
        ("created", payment.created_at),
        ("updated", payment.updated_at),
    ]
    return [f"{payment.id}  {payment.status}", *(f"  {name:<10}{text}" for name, text in rows)]


def detail_lines(detail: PaymentDetail) -> list[str]:
    """A payment, its scenario and its course; what has happened is marked."""
    first, *rest = payment_lines(detail.payment)
    course = [f"  {'x' if entry.reached else ' '} {change_line(entry)}" for entry in detail.timeline]
    return [f"{first}  {detail.scenario}", *rest, "", *course]


def change_line(entry: TimelineEntry) -> str:
    """A change of a payment: seconds after creation, the status from then on, and what happened."""
    offset = seconds(entry.offset_seconds)
    return f"{offset:>6} s  {entry.status:<{_STATUS_WIDTH}}  {what_happened(entry)}".rstrip()


def what_happened(entry: TimelineEntry) -> str:
    """What happened, without the status; nothing when only the status changed."""
    return printable(entry.event).removesuffix(entry.status).removesuffix(": ")


def seconds(value: float) -> str:
    """Seconds, to the millisecond, without zeros at the end."""
    return f"{value:.3f}".rstrip("0").rstrip(".")


def _received(attempt: Attempt) -> list[tuple[str, str]]:
    if not isinstance(attempt.deposits, list):
        return []
    rows = []
    for deposit in attempt.deposits:
        seen = f"{deposit.status} {deposit.confirmations}/{deposit.confirmations_required}"
        rows.append(("deposit", f"{amount(deposit.amount, deposit.chain, deposit.asset)}, {seen}"))
    return rows
