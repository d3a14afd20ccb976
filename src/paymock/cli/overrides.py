"""`next`: what the next creations of the sandbox meet."""

import click

from paymock.cli.api_client import Client
from paymock.cli.errors import Command
from paymock.cli.options import SCENARIO, as_json, with_client
from paymock.cli.output import note, say, say_json
from paymock.schemas.control import MAX_TIMES, Pending, PendingList

_PATH = "/_mock/next"


@click.command(cls=Command)
@with_client
@click.option("--scenario", type=SCENARIO, metavar="NAME", help="Their scenario.")
@click.option(
    "--fault", metavar="FAULT", help="What befalls them: status=503, delay=1500 (milliseconds) or drop."
)
@click.option("--times", type=click.IntRange(1, MAX_TIMES), metavar="N", help="How many. [default: 1]")
@click.option("--always", is_flag=True, help="All of them, until --clear or a reset.")
@click.option("--clear", is_flag=True, help="Forget what is pending.")
@as_json
def next(  # noqa: A001 - the name of the command
    client: Client,
    *,
    scenario: str | None,
    fault: str | None,
    times: int | None,
    always: bool,
    clear: bool,
    as_json: bool,
) -> None:
    """Prepare what the next payments meet.

    A scenario, a fault, or both, for those that are created without headers of their own. Prints all that is
    pending; without options, it changes nothing.
    """
    asked = scenario is not None or fault is not None
    if clear and (asked or always or times):
        raise click.UsageError("--clear goes with no other option.")
    if always and times:
        raise click.UsageError("Give --times or --always, not both.")
    if (always or times) and not asked:
        raise click.UsageError("--times and --always need --scenario or --fault.")
    if clear:
        client.call(type(None), "DELETE", _PATH).result()
        pending = PendingList(data=[])
    elif asked:
        body = {"scenario": scenario, "fault": fault, "times": None if always else times or 1}
        pending = client.call(PendingList, "POST", _PATH, body=body).result()
    else:
        pending = client.get(PendingList, _PATH)
    if as_json:
        say_json(pending)
        return
    say(*map(_line, pending.data))
    if not pending.data:
        note("nothing is pending")


def _line(pending: Pending) -> str:
    what = "  ".join(part for part in (pending.scenario, pending.fault) if part)
    times = {None: "always", 1: "once"}.get(pending.times, f"{pending.times} times")
    return f"{times:<10}  {what}"
