"""`requests`, `reset`, `ready`: the journal of a sandbox, its end, and whether the server answers."""

import time
from contextlib import closing

import click

from paymock.cli.api_client import Client
from paymock.cli.errors import Command, Late
from paymock.cli.options import UP_TO_A_DAY, as_json, server_url, with_client
from paymock.cli.output import idle, note, say, say_json, seconds
from paymock.client.http import Refused, Unreachable
from paymock.schemas.control import Journal, JournalEntry
from paymock.schemas.public import Health

_LONGEST_JOURNAL = 1000
_FOLLOW_EVERY = 1.0
"""Seconds between two looks at the journal, which has no way to tell of its next entry."""

_SHORTEST_PAUSE, _LONGEST_PAUSE = 0.02, 0.5


@click.command(cls=Command)
@with_client
@click.option("--follow", is_flag=True, help="Go on with every new request, until interrupted.")
@click.option(
    "--limit",
    type=click.IntRange(1, _LONGEST_JOURNAL),
    default=100,
    show_default=True,
    help="How many of those that the sandbox has seen.",
)
@as_json
def requests(client: Client, *, follow: bool, limit: int, as_json: bool) -> None:
    """List the requests that the sandbox has seen, the newest last.

    Only those below /v1. --json prints one document, the newest first; with --follow one document a line, the
    newest last.
    """
    journal = client.get(Journal, "/_mock/requests", query={"limit": _LONGEST_JOURNAL if follow else limit})
    if as_json and not follow:
        say_json(journal)
        return
    _print(journal.data[:limit], as_json=as_json)
    if not (journal.data or follow):
        note("no requests")
    while follow:
        idle(_FOLLOW_EVERY)
        seen = {entry.request_id for entry in journal.data}
        journal = client.get(Journal, "/_mock/requests", query={"limit": _LONGEST_JOURNAL})
        new = [entry for entry in journal.data if entry.request_id not in seen]
        if seen and len(new) == _LONGEST_JOURNAL:
            note("there were more requests than the journal holds: some are not shown")
        _print(new, as_json=as_json)


@click.command(cls=Command)
@with_client
def reset(client: Client) -> None:
    """Empty the sandbox.

    Its payments, idempotency keys, webhook endpoints, overrides, journal and clock are forgotten.
    """
    client.call(type(None), "POST", "/_mock/reset").result()
    note("the sandbox is empty")


@click.command(cls=Command)
@server_url
@click.option(
    "--wait",
    type=UP_TO_A_DAY,
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="How long to try.",
)
@as_json
def ready(*, url: str, wait: float, as_json: bool) -> None:
    """Say whether the server answers.

    For scripts and health checks. Exit status 3 when it does not, 1 when it says that it is not ready, 4 when
    --wait is over.
    """
    deadline = time.monotonic() + wait
    pause = _SHORTEST_PAUSE
    while True:
        left = deadline - time.monotonic()
        try:
            with closing(Client(url)) as client:
                client.call(Health, "GET", "/readyz", patience=min(max(left, 1.0), 5.0)).result()
            break
        except (Refused, Unreachable) as problem:
            if left <= 0:
                if as_json:
                    say_json({"ready": False, "url": url})
                if wait == 0:
                    raise
                raise Late(f"not ready within {seconds(wait)} s: {problem}") from None
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _LONGEST_PAUSE)
    if as_json:
        say_json({"ready": True, "url": url})
    else:
        say(f"ready  {url}")


def _print(newest_first: list[JournalEntry], *, as_json: bool) -> None:
    for entry in reversed(newest_first):
        if as_json:
            say_json(entry)
        else:
            say(_line(entry))


def _line(entry: JournalEntry) -> str:
    status = entry.status or "dropped"
    said = [entry.error or "", entry.idempotency or ""]
    outcome = "".join(f"  {word}" for word in said if word)
    return (
        f"{entry.at}  {status}  {entry.method:<4}  {entry.path}{outcome}  "
        f"{entry.duration_ms:.1f} ms  {entry.request_id}"
    )
