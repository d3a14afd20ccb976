"""The command `coverage`."""

import click

from paymock.cli.api import ApiClient, CommandError, with_client
from paymock.cli.options import Number, as_json
from paymock.cli.output import echo_note, show
from paymock.schemas.control import JOURNAL_LENGTH


@click.command
@with_client
@click.option(
    "--fail-under",
    type=Number(0, 100),
    metavar="PERCENT",
    help="Fail with exit status 1 if the application has seen less.",
)
@as_json
def coverage(client: ApiClient, *, fail_under: float | None, as_json: bool) -> None:
    """Show the scenarios, statuses and faults seen.

    Lists the scenarios, statuses, transitions, errors and faults that your application has met, according to
    the journal and the payments of the sandbox; and warns about its requests.
    """
    from paymock.analysis import coverage as seen  # imported here, since help and completion do not need it
    from paymock.analysis.lint import lint

    requests, payments = client.requests(), client.payments()
    result, warnings = seen.coverage(requests, payments), lint(requests, payments)
    document = result.as_json() | {"warnings": [warning._asdict() for warning in warnings]}
    warning_lines = ["", *map(str, warnings)] if warnings else []
    show(document, [*str(result).splitlines(), *warning_lines], as_json=as_json)
    if len(requests) == JOURNAL_LENGTH:
        echo_note(f"the journal is full: only the last {JOURNAL_LENGTH:,} requests count")
    if fail_under is not None and result.percent < fail_under:
        raise CommandError(f"the coverage, {result.percent:g}%, is below {fail_under:g}%")
