"""The commands on the journal of requests: `requests` and `coverage`."""

import click

from paymock.cache import JOURNAL_LENGTH, MAX_JOURNAL
from paymock.cli.api import OPERATION, STATUS, ApiClient, CommandError, with_client
from paymock.cli.options import PAYMENT, UP_TO_A_DAY, Integer, Number, as_json
from paymock.cli.output import echo_data, echo_hint, echo_json, echo_note, show, terminal_width, wait_readable
from paymock.client.http import Json
from paymock.client.sandbox import GRACE_PERIOD
from paymock.schemas.control import DEFAULT_WAIT, MAX_COUNT
from paymock.text import format_seconds


@click.command
@with_client
@click.option("--follow", "-f", is_flag=True, help="Print every new request, until interrupted.")
@click.option(
    "--limit", "-n", type=Integer(1, MAX_JOURNAL), default=100, help="Maximum number of past requests."
)
@click.option(
    "--wait", "count", type=Integer(1, MAX_COUNT), metavar="COUNT", help="Wait for COUNT matching requests."
)
@click.option("--operation", type=OPERATION, metavar="NAME", help="With --wait: this operation.")
@click.option("--order", "order_id", metavar="ORDER", help="With --wait: about payments of this order.")
@click.option("--payment", "payment_id", metavar=PAYMENT, help="With --wait: about this payment.")
@click.option("--shown", type=STATUS, metavar="STATUS", help="With --wait: the reply showed this status.")
@click.option("--after", metavar="REQUEST_ID", help="With --wait: after this request.")
@click.option("--timeout", type=UP_TO_A_DAY, help=f"Maximum wait, in real time. [default: {DEFAULT_WAIT}]")
@click.option("--clear", is_flag=True, help="Delete the past requests.")
@as_json
def requests(
    client: ApiClient,
    *,
    follow: bool,
    limit: int,
    count: int | None,
    timeout: float | None,
    clear: bool,
    as_json: bool,
    **wanted: str | None,
) -> None:
    """List the requests to the sandbox, newest last.

    Lists only requests to /v1. --json prints one document, newest first; with --follow, one per line, newest
    last. --wait prints the matching requests once COUNT have arrived; the exit status is 4 after a timeout.
    """
    if count is not None and follow:
        raise click.UsageError("Give --follow or --wait, not both.")
    if count is None and any(value is not None for value in (timeout, *wanted.values())):
        raise click.UsageError("--timeout, and options that select requests, need --wait.")
    if clear:
        client.clear_requests()
    if count is not None:
        seconds = DEFAULT_WAIT if timeout is None else timeout
        if wanted["payment_id"] is not None:
            wanted["payment_id"] = client.resolve(wanted["payment_id"])
        echo_hint(f"waiting for {count} requests, at most {format_seconds(seconds)} s")
        entries = client.wait_for_requests(count, timeout=seconds, **wanted)
    else:
        entries = client.requests(limit)
    if follow:
        after: str | None = None
        seconds = DEFAULT_WAIT + GRACE_PERIOD
        while True:
            if as_json:
                for entry in reversed(entries):
                    echo_json(entry)
            else:
                echo_data(_request_lines(entries))
            after = entries[0]["request_id"] if entries else after
            query = {"after": after, "timeout": DEFAULT_WAIT}
            waiting = client.send("waitForRequests", query=query, timeout=seconds)
            wait_readable(seconds, waiting.fileno())
            entries = waiting.result()["data"]
            if after and len(entries) == JOURNAL_LENGTH:
                echo_note("there were more requests than the journal holds: some are not shown")
    show({"data": entries}, _request_lines(entries), as_json=as_json, empty="no requests")


def _request_lines(newest_first: list[Json]) -> list[str]:
    lines = []
    for entry in reversed(newest_first):
        problems = [f"{problem['field']}: {problem['message']}" for problem in entry["details"]]
        words = [
            entry["at"], entry["status"] or "dropped", f"{entry['method']:<4}", entry["path"],
            entry["error"], entry["idempotency"], (key := entry.get("key")) and f"key {key}",
            entry["fault"] and f"fault {entry['fault']}",
            f"{entry['duration_ms']:.1f} ms", entry["request_id"], *(problems or [entry["message"]]),
        ]  # fmt: skip
        lines.append("  ".join(map(str, filter(None, words))))
    return lines


@click.command
@with_client
@click.option(
    "--fail-under",
    type=Number(0, 100),
    metavar="PERCENT",
    help="Exit with status 1 if the total is below this.",
)
@as_json
def coverage(client: ApiClient, *, fail_under: float | None, as_json: bool) -> None:
    """Show the scenarios, statuses and faults seen.

    Lists the scenarios, statuses, transitions, errors and faults that your application has seen, according to
    the journal and the payments of the sandbox. Also warns about wrong requests.
    """
    from paymock.analysis import coverage as seen  # imported here, since help and completion do not need it
    from paymock.analysis.lint import lint

    requests, payments = client.requests(), client.payments()
    result, warnings = seen.coverage(requests, payments), lint(requests, payments)
    document = result.as_json() | {"warnings": [warning._asdict() for warning in warnings]}
    warning_lines = ["", *map(str, warnings)] if warnings else []
    show(document, [*result.table(terminal_width()).splitlines(), *warning_lines], as_json=as_json)
    if len(requests) == JOURNAL_LENGTH:
        echo_note(f"the journal is full: only the last {JOURNAL_LENGTH:,} requests count")
    if fail_under is not None and result.percent < fail_under:
        raise CommandError(f"the coverage, {result.percent:g}%, is below {fail_under:g}%")
