"""The commands on the time of a sandbox: `clock` and `advance`."""

import click

from paymock.cli.api import ApiClient, split_payment, with_client
from paymock.cli.options import (
    PAYMENT,
    Choice,
    Duration,
    Number,
    as_json,
    complete_payment,
    completion,
    moment,
)
from paymock.cli.output import payment_lines, show
from paymock.client.http import Json
from paymock.rules.clock import MAX_ADVANCE, MAX_SPEED
from paymock.schemas.control import DEFAULT_WAIT, MAX_WAIT, TARGETS

_ADVANCE = Duration(0.001, MAX_ADVANCE)


class _Speed(Number):
    """A speed factor, or `freeze`, which is 0."""

    name = "speed factor"
    like = ", freeze, or a time like 2024-02-29T12:00Z"

    def parse(self, text: str) -> float:
        # x10 and 10x are words of other programs
        factor = text.removeprefix("x") if text.startswith("x") else text.removesuffix("x")
        return 0.0 if text == "freeze" else super().parse(factor)


_SPEED = _Speed(0, MAX_SPEED)
_FREEZE = completion(lambda _: ["freeze"])


@click.command
@with_client
@click.argument("arguments", metavar=f"[{PAYMENT}] [DURATION]", nargs=-1, shell_complete=complete_payment)
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
    type=Duration(0, MAX_WAIT),
    help=f"Maximum wait with --until-observed, in real time. [default: {DEFAULT_WAIT}]",
)
@as_json
def advance(
    client: ApiClient,
    *,
    arguments: tuple[str, ...],
    to: str | None,
    until_observed: bool,
    timeout: float | None,
    as_json: bool,
) -> None:
    """Advance the clock at once.

    Without a payment, advances the whole sandbox by DURATION: seconds, or like 1m30s. With one, advances only
    that payment, by DURATION or --to a status. --to without a payment advances the newest. The exit status
    is 4 if the application has not read a change before the timeout.
    """
    payment_id, duration = split_payment(arguments, has_value=to is not None)
    if (duration is None) == (to is None):
        raise click.UsageError("Give either DURATION (seconds, or like 1m30s) or --to.")
    seconds = None if duration is None else _ADVANCE.convert(duration, None, None)
    if timeout is not None and not until_observed:
        raise click.UsageError("--timeout needs --until-observed.")
    if payment_id is None and to is None:
        if until_observed:
            raise click.UsageError("--until-observed needs a payment or --to.")
        _show_clock(client.call("advanceClock", body={"seconds": seconds}), as_json=as_json)
        return
    limit = DEFAULT_WAIT if timeout is None else timeout
    payment_id = client.resolve(payment_id)
    payment = client.advance_payment(payment_id, to, seconds, until_observed=until_observed, timeout=limit)
    show(payment, payment_lines(client, payment), as_json=as_json)


@click.command
@with_client
@click.argument("setting", metavar="[FACTOR|freeze|TIME]", required=False, shell_complete=_FREEZE)
@as_json
def clock(client: ApiClient, *, setting: str | None, as_json: bool) -> None:
    """Show the clock of the sandbox, or set it.

    FACTOR is the speed relative to real time; 0 and `freeze` stop the clock. TIME, like 2024-02-29T12:00Z,
    can be set while the sandbox has no payments and no webhook endpoints.
    """
    if setting is None:
        clock = client.clock()
    else:
        body = {"now": moment(setting)} if ":" in setting else {"speed": _SPEED.convert(setting, None, None)}
        clock = client.call("setClock", body=body)
    _show_clock(clock, as_json=as_json)


def _show_clock(clock: Json, *, as_json: bool) -> None:
    speed = f"speed {clock['speed']:g}" if clock["speed"] else "frozen"
    show(clock, [f"{clock['now']}  {speed}"], as_json=as_json)
