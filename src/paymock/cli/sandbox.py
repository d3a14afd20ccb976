"""Commands on a server, a sandbox and its clock: overview, `ready`, `reset`, `advance` and `clock`."""

import sys
import time
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import click

from paymock import __version__
from paymock.cli.api import ApiClient, WaitTimedOut, api_errors, split_payment, with_client
from paymock.cli.options import (
    PAYMENT,
    UP_TO_A_DAY,
    Choice,
    Duration,
    Number,
    as_json,
    complete_newest,
    completion,
    server_url,
)
from paymock.cli.output import (
    AFTER_CREATION,
    Step,
    echo,
    echo_hint,
    echo_json,
    next_commands,
    next_lines,
    show,
    show_payment,
)
from paymock.client.http import Client, Json, Refused, Unreachable
from paymock.rules.clock import MAX_ADVANCE, MAX_SPEED
from paymock.schemas.control import DEFAULT_WAIT, MAX_WAIT, TARGETS
from paymock.schemas.json_decoding import decode_reply
from paymock.schemas.public import Health
from paymock.settings import DEFAULT_PORT
from paymock.text import format_seconds

_OVERVIEW_TIMEOUT = 5.0
"""Seconds until the server must answer."""

_CREATE = Step("create", "Create a payment")
_AFTER_REFUSAL = {
    "unauthenticated": Step("--key KEY", "Give an API key of the server", needs_server=False),
    "not_found": _CREATE,  # there is no control API
}

_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.02, 0.5
_MIN_TIMEOUT, _MAX_TIMEOUT = 1.0, 5.0

_ADVANCE = Duration(0.001, MAX_ADVANCE)


class _Speed(Number):
    """A speed factor, or `freeze`, which is 0."""

    name = "speed factor"
    like = ", or freeze"

    def parse(self, text: str) -> float:
        return 0.0 if text == "freeze" else super().parse(text)


_SPEED = _Speed(0, MAX_SPEED)


@click.command
@with_client
@as_json
def overview(client: ApiClient, *, as_json: bool) -> None:
    """Show whether a server answers, its newest payment, and what to do next."""
    rows = {"Server": client.url}
    document: dict[str, Any] = {"url": client.url, "newest": None, "problem": None}
    try:
        newest = client.call("listPayments", query={"limit": 1}, timeout=_OVERVIEW_TIMEOUT)["data"]
    except Unreachable as unreachable:
        rows["Problem"] = document["problem"] = str(unreachable)
        port = urlsplit(client.url).port
        option = "" if port in (None, DEFAULT_PORT) else f" --port {port}"
        steps = [
            Step(f"serve{option}", "Start a server", needs_server=False),
            Step("demo", "Play all scenarios, without a server", needs_server=False),
        ]
    except Refused as refused:
        rows["Problem"] = document["problem"] = f"{refused.code}: {refused.message}"
        ready = Step("ready --wait 60", "Wait until the server is ready")
        steps = [_AFTER_REFUSAL.get(refused.code, ready)]
    else:
        rows |= {"Dashboard": f"{client.url}/", "Swagger": f"{client.url}/swagger/"}
        steps = [_CREATE]
        for payment in newest:
            document["newest"] = payment
            rows |= {
                "Newest": "{id}  {status}  {scenario}".format(**payment),
                "Checkout": client.checkout_url(payment["id"]),
            }
            steps = [*AFTER_CREATION, _CREATE]
    steps.append(Step("--help", "List all commands", needs_server=False))
    if as_json:
        echo_json(document | {"next": next_commands(steps)})
        return
    echo(f"paymock {__version__}    MOCK: no real funds")
    echo(*(f"  {name:<10}{text}" for name, text in rows.items()))
    echo("", *next_lines(steps))


@click.command
@server_url
@click.option("--wait", type=UP_TO_A_DAY, default=0, help="Maximum time to retry.")
@as_json
@api_errors()
def ready(*, url: str, wait: float, as_json: bool) -> None:
    """Check whether the server is ready.

    For scripts and health checks. Exit status 3 when the server does not answer, 1 when it reports that it is
    not ready, 4 after --wait.
    """
    deadline = time.monotonic() + wait
    pause = _MIN_RETRY_SECONDS
    decode = partial(decode_reply, reply_type=Health)
    while True:
        left = deadline - time.monotonic()
        try:
            with closing(Client(url)) as client:
                timeout = min(max(left, _MIN_TIMEOUT), _MAX_TIMEOUT)
                client.send("GET", "/readyz", decode=decode, timeout=timeout).result()
            break
        except (Refused, Unreachable) as error:
            if pause == _MIN_RETRY_SECONDS and left > 0:
                echo_hint(f"not ready yet, waiting up to {format_seconds(wait)} s: {error}")
            if left <= 0:
                if as_json:
                    echo_json({"ready": False, "url": url})
                if wait == 0:
                    raise
                raise WaitTimedOut(f"not ready within {format_seconds(wait)} s: {error}") from None
        time.sleep(max(0.0, min(pause, deadline - time.monotonic())))
        pause = min(2 * pause, _MAX_RETRY_SECONDS)
    show({"ready": True, "url": url}, [f"ready  {url}"], as_json=as_json)


@click.command
@with_client
@click.option("--yes", "-y", is_flag=True, help="Do not ask, as a terminal does.")
@as_json
def reset(client: ApiClient, *, yes: bool, as_json: bool) -> None:
    """Empty the sandbox.

    Deletes payments, idempotency keys, webhook endpoints, overrides, fault rules and the journal, and resets
    the clock.
    """
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        click.confirm("Delete all payments of the sandbox, and all else in it?", abort=True, err=True)
    client.call("reset")
    show({"reset": True}, [], as_json=as_json, empty="the sandbox is empty")


@click.command
@with_client
@click.argument("arguments", metavar=f"[{PAYMENT}] [DURATION]", nargs=-1, shell_complete=complete_newest)
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

    Without a payment, the whole sandbox by DURATION: seconds, or like 1m30s. With one, that payment, to a
    status, to its next change or to the end of its timeline. --to without a payment advances the newest. Exit
    status 4 when the application has not read a change before the timeout.
    """
    payment_id, duration = split_payment(arguments, has_value=to is not None)
    if (duration is None) == (to is None):
        raise click.UsageError("Give one of DURATION, which is seconds or like 1m30s, and --to.")
    seconds = None if duration is None else _ADVANCE.convert(duration, None, None)
    if timeout is not None and not until_observed:
        raise click.UsageError("--timeout needs --until-observed.")
    if payment_id is None and to is None:
        if until_observed:
            raise click.UsageError("--until-observed needs a payment or --to.")
        _show_clock(client.call("advanceClock", body={"seconds": seconds}), as_json=as_json)
        return
    limit = DEFAULT_WAIT if timeout is None else timeout
    payment = client.advance_payment(
        client.resolve(payment_id), to, seconds, until_observed=until_observed, timeout=limit
    )
    show_payment(client, payment, as_json=as_json)


@click.command
@with_client
@click.argument(
    "speed",
    type=_SPEED,
    metavar="[FACTOR|freeze]",
    required=False,
    shell_complete=completion(lambda _: ["freeze"]),
)
@as_json
def clock(client: ApiClient, *, speed: float | None, as_json: bool) -> None:
    """Show the clock of the sandbox, or set its speed.

    FACTOR times real time; 0 and `freeze` stop the clock.
    """
    clock = client.clock() if speed is None else client.call("setClock", body={"speed": speed})
    _show_clock(clock, as_json=as_json)


def _show_clock(clock: Json, *, as_json: bool) -> None:
    speed = f"speed {clock['speed']:g}" if clock["speed"] else "frozen"
    show(clock, [f"{clock['now']}  {speed}"], as_json=as_json)
