"""`advance`, `clock` and `wait`: time that is moved, time that runs, and time that is waited for."""

import click

from paymock.cli.api_client import Client
from paymock.cli.errors import Command, Denied, Late
from paymock.cli.options import STATUS, UP_TO_A_DAY, Number, Seconds, as_json, found, with_client
from paymock.cli.output import payment_lines, say, say_json
from paymock.client.http import PATIENCE, path_of
from paymock.client.wait import GRACE, NotReached, wait_for_payment
from paymock.rules.clock import MAX_ADVANCE, MAX_SPEED
from paymock.schemas.control import TARGETS, Clock
from paymock.schemas.public import Payment


@click.command(cls=Command)
@with_client
@click.argument("step", metavar="[SECONDS]", type=Seconds(MAX_ADVANCE), required=False)
@click.option(
    "--seconds", "by", type=Seconds(MAX_ADVANCE), metavar="SECONDS", help="The same as the argument."
)
@click.option("--payment", "payment_id", metavar="ID", help="Move this payment alone; an id, or `newest`.")
@click.option(
    "--to",
    type=click.Choice(TARGETS),
    metavar="STATUS",
    help="With --payment: a status, or `next` for the next change, or `end` for the last.",
)
@as_json
def advance(
    client: Client,
    *,
    step: float | None,
    by: float | None,
    payment_id: str | None,
    to: str | None,
    as_json: bool,
) -> None:
    """Move time ahead at once.

    Without --payment, the whole sandbox by SECONDS; with it, one payment by SECONDS, to a status, to its next
    change or to the end of its course.
    """
    if sum(asked is not None for asked in (step, by, to)) != 1:
        raise click.UsageError("Give one of SECONDS, --seconds and --to.")
    ahead = step if by is None else by
    if payment_id is None:
        if to is not None:
            raise click.UsageError("--to needs --payment ID.")
        clock = client.call(Clock, "POST", "/_mock/clock/advance", body={"seconds": ahead}).result()
        _show(clock, as_json=as_json)
        return
    body = {"seconds": ahead} if to is None else {"to": to}
    path = path_of(found(client, payment_id), "advance")
    payment = client.call(Payment, "POST", path, body=body).result()
    if as_json:
        say_json(payment)
    else:
        say(*payment_lines(payment))


@click.command(cls=Command)
@with_client
@click.option(
    "--speed",
    type=Number(0, MAX_SPEED),
    metavar="FACTOR",
    help="Let it run so much faster than real time from now on; 0: stand still.",
)
@click.option("--freeze", is_flag=True, help="The same as --speed 0.")
@as_json
def clock(client: Client, *, speed: float | None, freeze: bool, as_json: bool) -> None:
    """Show the time of the sandbox, or change its speed.

    Without options, nothing changes.
    """
    if freeze and speed is not None:
        raise click.UsageError("Give --speed or --freeze, not both.")
    if freeze or speed is not None:
        call = client.call(Clock, "PUT", "/_mock/clock", body={"speed": speed or 0})
        _show(call.result(), as_json=as_json)
    else:
        _show(client.get(Clock, "/_mock/clock"), as_json=as_json)


@click.command(cls=Command)
@with_client
@click.argument("payment_id", metavar="ID")
@click.option("--status", type=STATUS, metavar="STATUS", help="What to wait for. [default: the next change]")
@click.option(
    "--timeout",
    type=UP_TO_A_DAY,
    default=60,
    show_default=True,
    metavar="SECONDS",
    help="How long, in real time.",
)
@as_json
def wait(client: Client, *, payment_id: str, status: str | None, timeout: float, as_json: bool) -> None:
    """Wait until a payment reaches a status, or changes.

    ID is an id, or `newest`. Exit status 4 when it did not come in time, 1 when it can no longer come.
    """
    try:
        found_id = found(client, payment_id, patience=min(timeout + GRACE, PATIENCE))
        payment = wait_for_payment(client, found_id, status, timeout)
    except NotReached as vain:
        if as_json:
            say_json({"reached": False, "possible": vain.timed_out, "payment": vain.payment})
        raise (Late(str(vain)) if vain.timed_out else Denied(f"status_unreachable: {vain}")) from None
    if as_json:
        say_json({"reached": True, "possible": True, "payment": payment})
    else:
        say(*payment_lines(client.read(Payment, payment)))


def _show(clock: Clock, *, as_json: bool) -> None:
    if as_json:
        say_json(clock)
    else:
        say(f"{clock.now}  {'frozen' if clock.speed == 0 else f'speed {clock.speed:g}'}")
