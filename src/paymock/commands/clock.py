"""`advance` and `wait`: time that is moved, and time that is waited for."""

import time

import click

from paymock.commands.client import Client, Refused, TimedOut
from paymock.commands.options import STATUS, Seconds, as_json, found, with_client
from paymock.commands.output import payment_lines, say, say_json, seconds
from paymock.core.control_wire import TARGETS, Clock, PaymentDetail, WaitResult
from paymock.core.virtual_time import MAX_ADVANCE
from paymock.core.wire import Payment

LONGEST_WAIT = 60
"""The most seconds that one request may wait."""

_A_DAY = 86_400


@click.command()
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
        if as_json:
            say_json(clock)
        else:
            say(f"{clock.now}  {'frozen' if clock.speed == 0 else f'speed {clock.speed:g}'}")
        return
    body = {"seconds": ahead} if to is None else {"to": to}
    payment = client.call(Payment, "POST", f"{found(client, payment_id)}/advance", body=body).result()
    if as_json:
        say_json(payment)
    else:
        say(*payment_lines(payment))


@click.command()
@with_client
@click.argument("payment_id", metavar="ID")
@click.option("--status", type=STATUS, metavar="STATUS", help="What to wait for. [default: the next change]")
@click.option(
    "--timeout",
    type=Seconds(_A_DAY, none=True),
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
    result, still_possible = _waited(client, found(client, payment_id), status, timeout)
    if as_json:
        say_json(result)
    elif result.reached:
        say(*payment_lines(result.payment))
    if result.reached:
        return
    stands = f"{result.payment.id} is {result.payment.status};"
    awaited = status or "a change"
    if still_possible:
        raise TimedOut(f"{stands} {awaited} did not come within {seconds(timeout)} s")
    raise Refused("status_unreachable", f"{stands} {awaited} does not lie ahead.")


def _waited(client: Client, path: str, status: str | None, timeout: float) -> tuple[WaitResult, bool]:
    """How the wait ended, and whether what was waited for can still come. The server answers at the change:
    a longer wait is several requests, each as long as the server allows.
    """
    deadline = time.monotonic() + timeout
    before = client.get(PaymentDetail, path).payment.updated_at
    while True:
        left = max(0.0, deadline - time.monotonic())
        query = {"status": status, "timeout": f"{min(left, LONGEST_WAIT):.3f}"}
        call = client.call(WaitResult, "GET", f"{path}/wait", query=query, patience=LONGEST_WAIT + 5)
        result = call.result()
        if result.reached or (status is None and result.payment.updated_at != before):
            return WaitResult(reached=True, payment=result.payment), True
        timeline = client.get(PaymentDetail, path).timeline
        if not any(status == entry.status if status else not entry.reached for entry in timeline):
            return result, False
        if left <= LONGEST_WAIT:
            return result, True
