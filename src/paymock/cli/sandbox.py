"""Commands on the whole sandbox: `next`, `requests` and `reset`."""

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import click
import msgspec

from paymock.cli.api_client import ApiClient, typed
from paymock.cli.common_options import as_json
from paymock.cli.errors import ApiCommand, CommandError, WaitTimedOut
from paymock.cli.options import ONE_DAY, OPERATION, SCENARIO, STATUS, with_client
from paymock.cli.output import echo, echo_hint, echo_json, echo_note, wait_readable
from paymock.client.http import Json
from paymock.client.sandbox import GRACE_PERIOD, NotReached
from paymock.client.text import format_seconds, format_times, refusal_reasons
from paymock.rules.faults import FAULT_FORM
from paymock.schemas.control import (
    DEFAULT_WAIT,
    JOURNAL_LENGTH,
    MAX_COUNT,
    MAX_TIMES,
    JournalEntry,
)


@click.command(cls=ApiCommand)
@with_client
@click.option("--scenario", type=SCENARIO, metavar="NAME", help="Scenario to apply.")
@click.option(
    "--course",
    type=click.Path(path_type=Path),
    metavar="FILE",
    help="TOML file of one scenario of your own, to apply.",
)
@click.option("--fault", metavar="FAULT", help=f"Fault to inject: {FAULT_FORM}.")
@click.option(
    "--times", type=click.IntRange(1, MAX_TIMES), metavar="N", help="Number of creations. [default: 1]"
)
@click.option("--always", is_flag=True, help="All creations, until --clear or a reset.")
@click.option("--order", "order_id", metavar="ID", help="Only creations of this order.")
@click.option("--clear", is_flag=True, help="Delete all pending overrides, or those of the order.")
@as_json
def next(  # noqa: A001 - the name of the command
    client: ApiClient,
    *,
    scenario: str | None,
    course: Path | None,
    fault: str | None,
    times: int | None,
    always: bool,
    order_id: str | None,
    clear: bool,
    as_json: bool,
) -> None:
    """Set a scenario, a fault or both for the next payments.

    They apply to creations without headers of their own. Prints all pending overrides; without
    options, nothing changes.
    """
    has_override = any(value is not None for value in (scenario, course, fault))
    problems = {
        "--clear can be combined with --order only.": clear and (has_override or always or times),
        "Give --times or --always, not both.": always and times,
        "--times, --always and --order need --scenario, --course or --fault.": (always or times or order_id)
        and not (has_override or clear),
        "Give --scenario or --course, not both.": scenario and course,
    }
    for message, applies in problems.items():
        if applies:
            raise click.UsageError(message)
    if clear:
        client.clear_next(order_id)
    if has_override:
        overrides = client.next(
            scenario,
            fault,
            None if always else times or 1,
            course=None if course is None else _read_course(course),
            order_id=order_id,
        )
    else:
        overrides = client.pending()
    if as_json:
        echo_json({"data": overrides})
        return
    echo(*map(_override_line, overrides))
    if not overrides:
        echo_note("nothing is pending")


def _read_course(file: Path) -> Any:
    """The scenario of a file, which must have exactly one, as a course."""
    from paymock.app.scenario_file import read_scenarios  # imported here, since it takes long
    from paymock.resources.scenarios import ScenarioFileError, render

    try:
        scenarios = [*read_scenarios(file).values()]
    except ScenarioFileError as error:
        raise CommandError(str(error)) from None
    if len(scenarios) != 1:
        raise CommandError(f"--course needs a file of one scenario, and {file} has {len(scenarios)}")
    return msgspec.to_builtins(render(scenarios[0]))


def _override_line(override: Json) -> str:
    order = f"order {override['order_id']}" if "order_id" in override else None
    effects = "  ".join(filter(None, (override["scenario"], override["fault"], order)))
    return f"{format_times(override['times']):<10}  {effects}"


@click.command(cls=ApiCommand)
@with_client
@click.option("--follow", is_flag=True, help="Print every new request, until interrupted.")
@click.option(
    "--limit",
    type=click.IntRange(1, JOURNAL_LENGTH),
    default=100,
    show_default=True,
    help="Maximum number of past requests.",
)
@click.option(
    "--wait", "count", type=click.IntRange(1, MAX_COUNT), metavar="COUNT", help="Wait for so many that match."
)
@click.option("--operation", type=OPERATION, metavar="NAME", help="With --wait: this operation.")
@click.option("--order", "order_id", metavar="ORDER", help="With --wait: about payments of this order.")
@click.option("--payment", "payment_id", metavar="ID", help="With --wait: about this payment.")
@click.option("--shown", type=STATUS, metavar="STATUS", help="With --wait: the reply showed this status.")
@click.option("--after", metavar="REQUEST_ID", help="With --wait: after this request.")
@click.option(
    "--timeout",
    type=ONE_DAY,
    metavar="SECONDS",
    help=f"Maximum wait, in real time. [default: {DEFAULT_WAIT}]",
)
@as_json
def requests(
    client: ApiClient,
    *,
    follow: bool,
    limit: int,
    count: int | None,
    timeout: float | None,
    as_json: bool,
    **wanted: str | None,
) -> None:
    """List the requests to the sandbox, newest last.

    Only those below /v1. --json prints one document, newest first; with --follow, one document a line, newest
    last. With --wait, those that match, as soon as there are so many; exit status 4 after the timeout.
    """
    if count is not None:
        if follow:
            raise click.UsageError("Give --follow or --wait, not both.")
        seconds = DEFAULT_WAIT if timeout is None else timeout
        echo_hint(f"waiting for {count} requests, at most {format_seconds(seconds)} s")
        _print_matching(client, wanted, count, seconds, as_json=as_json)
        return
    if timeout is not None or any(value is not None for value in wanted.values()):
        raise click.UsageError("The options that select requests, and --timeout, need --wait.")
    entries = client.requests(limit)
    if as_json and not follow:
        echo_json({"data": entries})
        return
    _print_requests(entries, as_json=as_json)
    if follow:
        _follow(client, entries[0]["request_id"] if entries else None, as_json=as_json)
    elif not entries:
        echo_note("no requests")


def _follow(client: ApiClient, after: str | None, *, as_json: bool) -> None:
    """Print each request after the given one, or each of an empty journal, as soon as it comes."""
    timeout = DEFAULT_WAIT + GRACE_PERIOD
    while True:
        query = {"after": after, "timeout": DEFAULT_WAIT}
        waiting = client.send("waitForRequests", query=query, timeout=timeout)
        wait_readable(timeout, [waiting])
        new = waiting.result()["data"]
        if after and len(new) == JOURNAL_LENGTH:
            echo_note("there were more requests than the journal holds: some are not shown")
        _print_requests(new, as_json=as_json)
        after = new[0]["request_id"] if new else after


def _print_matching(
    client: ApiClient, wanted: Mapping[str, str | None], count: int, timeout: float, *, as_json: bool
) -> None:
    try:
        entries = client.wait_for_requests(count, timeout=timeout, **wanted)
    except NotReached as error:
        raise WaitTimedOut(str(error)) from None
    if as_json:
        echo_json({"data": entries})
    else:
        _print_requests(entries, as_json=False)


def _print_requests(newest_first: list[Json], *, as_json: bool) -> None:
    for entry in reversed(newest_first):
        if as_json:
            echo_json(entry)
        else:
            echo(_request_line(typed(entry, JournalEntry)))


def _request_line(entry: JournalEntry) -> str:
    status = entry.status or "dropped"
    words = entry.error, entry.idempotency, entry.fault and f"fault {entry.fault}"
    outcome = "".join(f"  {word}" for word in words if word)
    problems = ((problem.field, problem.message) for problem in entry.details)
    reasons = "".join(f"  {reason}" for reason in refusal_reasons(entry.message, problems))
    return (
        f"{entry.at}  {status}  {entry.method:<4}  {entry.path}{outcome}  "
        f"{entry.duration_ms:.1f} ms  {entry.request_id}{reasons}"
    )


@click.command(cls=ApiCommand)
@with_client
@as_json
def reset(client: ApiClient, *, as_json: bool) -> None:
    """Empty the sandbox.

    Deletes payments, idempotency keys, webhook endpoints, overrides, fault rules and the journal, and resets
    the clock.
    """
    client.call("reset")
    if as_json:
        echo_json({"reset": True})
    else:
        echo_note("the sandbox is empty")
