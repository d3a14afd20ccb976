"""Commands on the clock: `advance` and `clock`."""

import click

from paymock.cli.api import ApiClient, split_payment_id, with_client
from paymock.cli.options import Choice, Number, as_json, complete_newest
from paymock.cli.output import show, show_payment
from paymock.client.http import Json
from paymock.rules.clock import MAX_ADVANCE, MAX_SPEED
from paymock.schemas.control import DEFAULT_WAIT, MAX_WAIT, TARGETS

_ADVANCE_SECONDS = Number(0, MAX_ADVANCE, min_open=True)


@click.command
@with_client
@click.argument("arguments", metavar="[ID] [SECONDS]", nargs=-1, shell_complete=complete_newest)
@click.option(
    "--seconds", "seconds_option", type=_ADVANCE_SECONDS, metavar="SECONDS", help="The same as the argument."
)
@click.option(
    "--payment",
    "payment_option",
    metavar="ID",
    shell_complete=complete_newest,
    help="The same as the argument.",
)
@click.option(
    "--to",
    type=Choice(TARGETS),
    metavar="STATUS",
    help="Advance a payment to this status, `next` for the next change, or `end` for the last.",
)
@click.option(
    "--until-observed",
    is_flag=True,
    help="Advance a payment one change at a time, waiting until the application has read each.",
)
@click.option(
    "--timeout",
    type=Number(0, MAX_WAIT),
    metavar="SECONDS",
    help=f"Maximum wait with --until-observed, in real time. [default: {DEFAULT_WAIT}]",
)
@as_json
def advance(
    client: ApiClient,
    *,
    arguments: tuple[str, ...],
    seconds_option: float | None,
    payment_option: str | None,
    to: str | None,
    until_observed: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Advance the clock at once.

    Without ID, the whole sandbox by SECONDS. With ID, an id or `newest`, one payment by SECONDS, to a status,
    to its next change or to the end of its timeline. --to without ID advances the newest payment. Exit status
    4 when the application has not read a change before the timeout.
    """
    payment_argument, seconds_argument = split_payment_id(arguments)
    if sum(value is not None for value in (seconds_argument, seconds_option, to)) != 1:
        raise click.UsageError("Give one of SECONDS, --seconds and --to.")
    if payment_argument is not None and payment_option is not None:
        raise click.UsageError("Give ID or --payment, not both.")
    seconds = seconds_option if seconds_argument is None else _parse_seconds(seconds_argument)
    payment_id = payment_option if payment_argument is None else payment_argument
    if timeout is not None and not until_observed:
        raise click.UsageError("--timeout needs --until-observed.")
    if payment_id is None and to is None:
        if until_observed:
            raise click.UsageError("--until-observed needs ID or --to.")
        _show_clock(client.call("advanceClock", body={"seconds": seconds}), as_json=as_json)
        return
    limit = DEFAULT_WAIT if timeout is None else timeout
    payment = client.advance_payment(
        client.resolve(payment_id), to, seconds, until_observed=until_observed, timeout=limit
    )
    show_payment(client, payment, as_json=as_json)


def _parse_seconds(text: str) -> float:
    try:
        return _ADVANCE_SECONDS.convert(text, None, None)
    except click.BadParameter as error:
        error.param_hint = "SECONDS"
        raise


@click.command
@with_client
@click.option(
    "--speed",
    type=Number(0, MAX_SPEED),
    metavar="FACTOR",
    help="Set the speed factor: FACTOR times real time; 0 freezes the clock.",
)
@click.option("--freeze", is_flag=True, help="The same as --speed 0.")
@as_json
def clock(client: ApiClient, *, speed: float | None, freeze: bool, as_json: bool) -> None:
    """Show the clock of the sandbox, or set its speed.

    Without options, nothing changes.
    """
    if freeze and speed is not None:
        raise click.UsageError("Give --speed or --freeze, not both.")
    is_set = freeze or speed is not None
    clock = client.call("setClock", body={"speed": speed or 0}) if is_set else client.clock()
    _show_clock(clock, as_json=as_json)


def _show_clock(clock: Json, *, as_json: bool) -> None:
    speed = f"speed {clock['speed']:g}" if clock["speed"] else "frozen"
    show(clock, [f"{clock['now']}  {speed}"], as_json=as_json)
