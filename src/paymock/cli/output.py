"""Output of the commands: data on standard output, messages on standard error."""

import errno
import json
import os
import re
import select
import shlex
import shutil
import stat
import sys
import time
from collections.abc import Mapping, Sequence
from contextlib import suppress
from functools import cache
from pathlib import Path
from textwrap import wrap
from typing import Any, NamedTuple
from unicodedata import category, east_asian_width

import click
import msgspec

from paymock.cli.api import ApiClient
from paymock.cli.options import KEY_FROM_VARIABLE, is_given
from paymock.client.http import Json
from paymock.payments.files import FileError, load_catalog
from paymock.rules.amounts import to_tokens
from paymock.rules.scenarios import PaymentStatus
from paymock.schemas.catalog import Asset
from paymock.text import escape_control

_GAP = "  "
_MIN_LAST_WIDTH = 12
_GOOD_LAST_WIDTH = 20
"""Other columns are omitted for this width of the last one."""

_COLORS = {"completed": "green", "failed": "red", "expired": "yellow", "review": "yellow"}
"""Of statuses, by their last words."""

_STATUS = re.compile(rf"( *\S.*?  +)({'|'.join(PaymentStatus)})(?!\S)")
"""The first status in a line that is not at its beginning: a scenario of the same name comes after it."""


def echo(*lines: str) -> None:
    """Print lines of data, as `printable` ones."""
    for line in lines:
        click.echo(printable(line))


def printable(text: str) -> str:
    """The text with escapes in place of control characters and of what standard output cannot encode."""
    encoding = sys.stdout.encoding or "utf-8"
    return escape_control(text).encode(encoding, "backslashreplace").decode(encoding)


def echo_json(value: Any) -> None:
    click.echo(msgspec.json.encode(value))


def echo_note(message: str) -> None:
    click.echo(message, err=True)


def echo_hint(*lines: str) -> None:
    """Print lines on standard error for a person at a terminal; neither a pipe nor a log gets them."""
    if sys.stdout.isatty() and sys.stderr.isatty():
        for line in lines:
            echo_note(line)


def show(document: Any, lines: Sequence[str], *, as_json: bool, empty: str = "") -> None:
    """Print a document as JSON, or the lines that show it; if there are none, the note `empty`."""
    if as_json:
        echo_json(document)
    elif lines:
        echo_data(lines)
    else:
        echo_note(empty)


def echo_data(lines: Sequence[str]) -> None:
    """Print lines; on a terminal, within its width, and with statuses in color unless NO_COLOR is set."""
    width = terminal_width()
    if width is None:
        echo(*lines)
        return
    for line in map(printable, lines):
        parts = wrap(line, width, subsequent_indent="    ", break_long_words=False, break_on_hyphens=False)
        for part in parts or [""]:
            click.echo(part if os.environ.get("NO_COLOR") else _STATUS.sub(_colored, part, 1))


def _colored(match: re.Match[str]) -> str:
    before, status = match.groups()
    return before + click.style(status, fg=_COLORS.get(status.rpartition("_")[2], "cyan"))


_SIGNAL_SECONDS = 1.0
"""How late Ctrl-C may be: a signal that comes between two instructions does not interrupt the next wait."""


def wait_readable(timeout: float, descriptor: int) -> None:
    """Wait `timeout` seconds, or until the file descriptor is readable.

    Raises BrokenPipeError as soon as the reader of standard output has closed it.
    """
    if not hasattr(select, "poll"):  # Windows, which does not report a closed pipe
        select.select([descriptor], (), (), timeout)
        return
    poll = select.poll()
    poll.register(descriptor, select.POLLIN)
    output = None
    with suppress(OSError):  # a replacement of standard output need not be a file
        mode = os.fstat(sys.stdout.fileno()).st_mode
        if stat.S_ISFIFO(mode) or stat.S_ISSOCK(mode):
            output = sys.stdout.fileno()
            poll.register(output, 0)  # errors only
    deadline = time.monotonic() + timeout
    while True:
        left = max(0.0, deadline - time.monotonic())
        ready = [readable for readable, _ in poll.poll(min(left, _SIGNAL_SECONDS) * 1000)]
        if ready or left <= _SIGNAL_SECONDS:
            break
    if output in ready:
        raise BrokenPipeError(errno.EPIPE, os.strerror(errno.EPIPE))


# Tables


class Column(NamedTuple):
    """A column of a table. A narrow terminal omits the highest rank first, and never rank 0."""

    title: str
    cells: Sequence[str]
    rank: int = 0


def terminal_width() -> int | None:
    return shutil.get_terminal_size().columns if sys.stdout.isatty() else None


def table_lines(columns: Sequence[Column], width: int | None, *, wrapped: bool = False) -> list[str]:
    """A header and a line for each row, at most `width` cells wide, unless the columns of rank 0 are wider.

    What does not fit into the last column is truncated, or continued on further lines if `wrapped`, for text
    in English. Without `width`, nothing is omitted.
    """
    columns = [column._replace(cells=[printable(cell) for cell in column.cells]) for column in columns]
    while True:
        *fixed, last = columns
        widths = [max(map(cell_len, (column.title, *column.cells))) for column in columns]
        if width is None:
            last_width = widths[-1]
            break
        last_width = min(widths[-1], width - sum(widths[:-1]) - len(_GAP) * len(fixed))
        omitted = max(columns, key=lambda column: column.rank)
        wanted = _MIN_LAST_WIDTH if omitted is last else _GOOD_LAST_WIDTH
        if last_width >= min(widths[-1], wanted) or not omitted.rank:
            break
        columns.remove(omitted)

    lines = []
    for cells in zip(*((column.title, *column.cells) for column in columns), strict=True):
        line = ""
        for cell, cell_width in zip(cells[:-1], widths, strict=False):
            line += cell + " " * (cell_width - cell_len(cell)) + _GAP
        parts = [cells[-1]]
        if last.rank:
            parts = wrap(parts[0], last_width) if wrapped else [truncated(parts[0], last_width)]
        lines += [f"{line}{parts[0]}".rstrip(), *(" " * cell_len(line) + part for part in parts[1:])]
    return lines


def truncated(text: str, width: int) -> str:
    if cell_len(text) <= width:
        return text
    while cell_len(text) >= width and text:
        text = text[:-1]
    return text.rstrip() + _ellipsis()


def cell_len(text: str) -> int:
    """The cells that a text takes on a terminal: two for a wide character, none for one that combines."""
    return sum(
        0 if category(character) in ("Mn", "Me", "Cf") else 1 + (east_asian_width(character) in "WF")
        for character in text
    )


def shortened(payment_id: str) -> str:
    return payment_id[:8] + _ellipsis() + payment_id[-4:]


def _ellipsis() -> str:
    return "…" if printable("…") == "…" else "~"


# Payments


def payment_lines(client: ApiClient, payment: Json) -> list[str]:
    [attempt, *_] = payment["attempts"]
    instructions, receive = attempt["instructions"], payment["receive"]
    amounts, chain, asset = instructions["amounts"], instructions["chain"], instructions["asset"]
    rows = [
        ("order", payment["order_id"]),
        ("due", f"{format_amount(amounts['due'], chain, asset)} on {chain}"),
        ("pay to", f"{instructions['invoice_address']} (a mock: nobody holds its key)"),
        ("checkout", client.checkout_url(payment["id"])),
    ]
    for deposit in attempt.get("deposits") or ():
        amount = format_amount(deposit["amount"], deposit["chain"], deposit["asset"])
        progress = f"{deposit['status']} {deposit['confirmations']}/{deposit['confirmations_required']}"
        rows.append(("deposit", f"{amount}, {progress}"))
    merchant = format_amount(receive["amount"], receive["chain"], receive["asset"])
    rows += [
        ("merchant", f"{merchant} to {receive['address']}"),
        ("fee", format_amount(amounts["fee"], chain, asset)),
    ]
    if payment.get("metadata"):
        rows.append(("metadata", json.dumps(payment["metadata"], ensure_ascii=False)))
    rows += [("created", payment["created_at"]), ("updated", payment["updated_at"])]
    return [f"{payment['id']}  {payment['status']}", *(f"  {name:<10}{value}" for name, value in rows)]


def format_amount(raw: str, chain: str, asset: str) -> str:
    """`1010000000000000000 (1.01 USDT)`, or `1010000000000000000 raw units of USDT` for an unknown asset."""
    tokens = format_tokens(raw, chain, asset)
    return f"{raw} raw units of {asset}" if tokens is None else f"{raw} ({tokens})"


def format_tokens(raw: str, chain: str, asset: str) -> str | None:
    """`1.01 USDT`, or None for an unknown asset."""
    entry = catalog_assets(chain).get(asset)
    return None if entry is None else f"{to_tokens(int(raw), entry.decimals)} {entry.symbol}"


def catalog_assets(chain: str) -> Mapping[str, Asset]:
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
    except FileError:
        return {}
    return {chain: catalog.assets(chain) or {} for chain in catalog.chains}


# What is next


class Step(NamedTuple):
    """A command that is useful next, without the name of the program, and what it does."""

    command: str
    purpose: str
    needs_server: bool = True


AFTER_CREATION = (
    Step("wait", "Wait for the next change of the payment"),
    Step("advance --to next", "Advance it to its next change"),
    Step("payment", "Show it with its timeline"),
)


def next_commands(steps: Sequence[Step]) -> list[str]:
    """The command line of each step, for the server and the sandbox that the options name. It may end up in a
    log, and names the variable of the API key in its place.
    """
    ctx = click.get_current_context()
    url = f"--url {shlex.quote(ctx.params['url'])} " if is_given(ctx, "url") else ""
    common = url + (f"{KEY_FROM_VARIABLE} " if is_given(ctx, "key") else "")
    return [f"{program()} {common if step.needs_server else ''}{step.command}" for step in steps]


def next_lines(steps: Sequence[Step]) -> list[str]:
    commands = next_commands(steps)
    width = max(map(len, commands))
    rows = zip(commands, steps, strict=True)
    return ["Next:", *(f"  {command:<{width}}  {step.purpose}" for command, step in rows)]


def program() -> str:
    """How a shell in this folder starts paymock: by its name if that is on the path."""
    if shutil.which("paymock"):
        return "paymock"
    script = Path(sys.executable)
    if not hasattr(sys, "frozen"):  # as in the executable of scripts/binary
        script = script.with_name("paymock")
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m paymock"
    folder = Path.cwd()
    return shlex.quote(str(script.relative_to(folder) if script.is_relative_to(folder) else script))
