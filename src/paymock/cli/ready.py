"""The command `ready`, and the overview that `paymock` shows without a command."""

import time
from contextlib import closing
from functools import partial
from typing import Any
from urllib.parse import urlsplit

import click

from paymock import __version__
from paymock.cli.api import ApiClient, WaitTimedOut, api_errors, decode_reply, with_client
from paymock.cli.options import UP_TO_A_DAY, as_json, server_url
from paymock.cli.output import (
    AFTER_CREATION,
    Step,
    echo,
    echo_hint,
    echo_json,
    next_commands,
    next_lines,
    show,
)
from paymock.client.http import Client, Refused, Unreachable
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
        steps = [Step(f"serve{option}", "Start a server", needs_server=False)]
    except Refused as refused:
        rows["Problem"] = document["problem"] = f"{refused.code}: {refused.message}"
        ready = Step("ready --wait 60", "Wait until the server is ready")
        steps = [_AFTER_REFUSAL.get(refused.code, ready)]
    else:
        rows |= {"Dashboard": f"{client.url}/", "Swagger": f"{client.url}/swagger/"}
        steps = [_CREATE]
        for payment in newest:
            document["newest"] = payment
            rows["Newest"] = "{id}  {status}  {scenario}".format(**payment)
            rows["Checkout"] = client.checkout_url(payment["id"])
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

    For scripts and health checks. The exit status is 3 if the server does not answer, 1 if it reports that it
    is not ready, 4 if it is still not ready after --wait.
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
