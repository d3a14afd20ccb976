"""Output of the commands: data on standard output, messages on standard error; and formatting of payments."""

import errno
import json
import math
import os
import select
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any, Protocol, TypeVar

import click
import msgspec

from paymock.app.catalog_file import load_catalog
from paymock.client import text
from paymock.client.text import escape_control
from paymock.resources.catalog import CatalogError
from paymock.rules.amounts import to_tokens
from paymock.schemas.catalog import Asset
from paymock.schemas.control import PaymentDetail, TimelineEntry
from paymock.schemas.public import Attempt, Payment


class HasSocket(Protocol):
    """Something that `select` can wait for."""

    def fileno(self) -> int:
        """The file descriptor of the socket."""


S = TypeVar("S", bound=HasSocket)


def echo(*lines: str) -> None:
    """Print lines of data, as `printable` ones."""
    for line in lines:
        click.echo(printable(line))


def printable(text: str) -> str:
    """The text with escapes in place of control characters and of what standard output cannot encode."""
    encoding = sys.stdout.encoding or "utf-8"
    return escape_control(text).encode(encoding, "backslashreplace").decode(encoding)


def echo_json(value: Any) -> None:
    """Print one JSON document on one line, always in UTF-8."""
    click.echo(msgspec.json.encode(value))


def echo_note(message: str) -> None:
    """Print a message on standard error."""
    click.echo(message, err=True)


def echo_hint(*lines: str) -> None:
    """Print lines on standard error for a person at a terminal; neither a pipe nor a log gets them."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        for line in lines:
            echo_note(line)


_SIGNAL_SECONDS = 1.0
"""How late Ctrl-C may be: a signal that comes between two instructions does not interrupt the next wait."""


def wait_readable(timeout: float | None, sources: Sequence[S] = ()) -> list[S]:
    """Wait `timeout` seconds, or until one of `sources` is readable; return those that are.

    Raises BrokenPipeError as soon as the reader of standard output has closed it.
    """
    if not hasattr(select, "poll"):  # Windows, which does not report a closed pipe
        if not sources:
            time.sleep(timeout or 0)
            return []
        return select.select(sources, (), (), timeout)[0]
    poll = select.poll()
    by_descriptor = {source.fileno(): source for source in sources}
    for descriptor in by_descriptor:
        poll.register(descriptor, select.POLLIN)
    output = _output_pipe()
    if output is not None:
        poll.register(output, 0)  # errors only
    deadline = math.inf if timeout is None else time.monotonic() + timeout
    while True:
        left = max(0.0, deadline - time.monotonic())
        ready = [descriptor for descriptor, _ in poll.poll(min(left, _SIGNAL_SECONDS) * 1000)]
        if ready or left <= _SIGNAL_SECONDS:
            break
    if output in ready:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))
    return [by_descriptor[descriptor] for descriptor in ready]


def _output_pipe() -> int | None:
    """The file descriptor of standard output, if it is a pipe or a socket."""
    with suppress(OSError):  # a replacement of standard output need not be a file
        descriptor = sys.stdout.fileno()
        mode = os.fstat(descriptor).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            return descriptor
    return None


def payment_lines(payment: Payment, checkout: str) -> list[str]:
    """The lines that describe a payment, whose checkout has this URL."""
    [attempt, *_] = payment.attempts
    instructions = attempt.instructions
    amounts, chain, asset = instructions.amounts, instructions.chain, instructions.asset
    receive = payment.receive
    rows = [
        ("order", payment.order_id),
        ("due", f"{format_amount(amounts.due, chain, asset)} on {chain}"),
        ("pay to", f"{instructions.invoice_address} (a mock: nobody holds its key)"),
        ("checkout", checkout),
        *_deposit_rows(attempt),
        ("merchant", f"{format_amount(receive.amount, receive.chain, receive.asset)} to {receive.address}"),
        ("fee", format_amount(amounts.fee, chain, asset)),
        *([("metadata", json.dumps(payment.metadata, ensure_ascii=False))] if payment.metadata else []),
        ("created", payment.created_at),
        ("updated", payment.updated_at),
    ]
    return [f"{payment.id}  {payment.status}", *(f"  {name:<10}{text}" for name, text in rows)]


def _deposit_rows(attempt: Attempt) -> list[tuple[str, str]]:
    if not isinstance(attempt.deposits, list):
        return []
    rows = []
    for deposit in attempt.deposits:
        progress = f"{deposit.status} {deposit.confirmations}/{deposit.confirmations_required}"
        rows.append(("deposit", f"{format_amount(deposit.amount, deposit.chain, deposit.asset)}, {progress}"))
    return rows


def detail_lines(detail: PaymentDetail, checkout: str) -> list[str]:
    """The lines that describe a payment, its scenario and its timeline; reached entries are marked."""
    first, *rest = payment_lines(detail.payment, checkout)
    timeline = [f"  {'x' if entry.reached else ' '} {timeline_line(entry)}" for entry in detail.timeline]
    return [f"{first}  {detail.scenario}", *rest, "", *timeline]


def timeline_line(entry: TimelineEntry) -> str:
    """A change of a payment: seconds since creation, the new status, and the event."""
    return text.timeline_line(entry.offset_seconds, entry.status, entry.event)


def format_amount(raw: str, chain: str, asset: str) -> str:
    """`1010000000000000000 (1.01 USDT)`, or `1010000000000000000 raw units of USDT` for an unknown asset."""
    tokens = format_tokens(raw, chain, asset)
    return f"{raw} raw units of {asset}" if tokens is None else f"{raw} ({tokens})"


def format_tokens(raw: str, chain: str, asset: str) -> str | None:
    """`1.01 USDT`, or None for an unknown asset."""
    entry = catalog_assets(chain).get(asset)
    return None if entry is None else f"{to_tokens(int(raw), entry.decimals)} {entry.symbol}"


def catalog_assets(chain: str) -> Mapping[str, Asset]:
    """The assets of a chain by id; none of an unknown chain."""
    return catalog().get(chain, {})


def catalog() -> Mapping[str, Mapping[str, Asset]]:
    """The assets of each chain by id, from the built-in catalog or the one of PAYMOCK_CATALOG.

    The catalog of the server is not read, since that request would appear in the journal of the sandbox.
    """
    return _load_catalog(os.environ.get("PAYMOCK_CATALOG") or None)


@cache
def _load_catalog(file: str | None) -> Mapping[str, Mapping[str, Asset]]:
    try:
        catalog = load_catalog(Path(file) if file else None)
    except CatalogError:
        return {}
    return {chain: catalog.assets(chain) or {} for chain in catalog.chains}
