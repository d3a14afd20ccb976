"""The command `coverage`."""

from contextlib import closing

import click

from paymock.cli.api_client import ApiClient
from paymock.cli.common_options import api_key, as_json, server_url
from paymock.cli.errors import ApiCommand, CommandError
from paymock.cli.output import echo, echo_json, echo_note
from paymock.schemas.control import JOURNAL_LENGTH


class CoverageTooLow(CommandError):
    """The application has seen less than was requested."""

    exit_code = 1


@click.command(cls=ApiCommand)
@server_url
@api_key
@click.option(
    "--fail-under",
    type=click.FloatRange(0, 100),
    metavar="PERCENT",
    help="Fail with exit status 1 if the application has seen less.",
)
@as_json
def coverage(*, url: str, key: str, fail_under: float | None, as_json: bool) -> None:
    """Show what the application has seen of the service.

    Scenarios, statuses, transitions, errors and faults, from the journal and the payments of the sandbox; and
    what is wrong with the requests.
    """
    from paymock.analysis import coverage as seen  # imported here, since help and completion do not need it
    from paymock.analysis.lint import lint

    with closing(ApiClient(url, key)) as client:
        requests, payments = client.requests(), client.payments()
    result, warnings = seen.coverage(requests, payments), lint(requests, payments)
    if as_json:
        echo_json(result.as_json() | {"warnings": [warning._asdict() for warning in warnings]})
    else:
        echo(*str(result).splitlines())
        if warnings:
            echo("", *map(str, warnings))
    if len(requests) == JOURNAL_LENGTH:
        echo_note(f"the journal is full: only the last {JOURNAL_LENGTH:,} requests count")
    if fail_under is not None and result.percent < fail_under:
        raise CoverageTooLow(f"the coverage, {result.percent:g}%, is below {fail_under:g}%")
