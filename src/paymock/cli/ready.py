"""The command `ready`."""

import time
from contextlib import closing
from functools import partial

import click

from paymock.cli.common_options import as_json, server_url
from paymock.cli.errors import ApiCommand, WaitTimedOut
from paymock.cli.options import ONE_DAY
from paymock.cli.output import echo, echo_hint, echo_json
from paymock.client.http import Client, Refused, Unreachable
from paymock.client.text import format_seconds
from paymock.schemas.public import Health
from paymock.schemas.replies import decode_reply

_MIN_RETRY_SECONDS, _MAX_RETRY_SECONDS = 0.02, 0.5
_MIN_TIMEOUT, _MAX_TIMEOUT = 1.0, 5.0

_decode = partial(decode_reply, reply_type=Health)


@click.command(cls=ApiCommand)
@server_url
@click.option(
    "--wait",
    type=ONE_DAY,
    default=0,
    show_default=True,
    metavar="SECONDS",
    help="Maximum time to retry.",
)
@as_json
def ready(*, url: str, wait: float, as_json: bool) -> None:
    """Check whether the server is ready.

    For scripts and health checks. Exit status 3 when the server does not answer, 1 when it reports that it is
    not ready, 4 after --wait SECONDS.
    """
    deadline = time.monotonic() + wait
    pause = _MIN_RETRY_SECONDS
    while True:
        left = deadline - time.monotonic()
        try:
            with closing(Client(url)) as client:
                timeout = min(max(left, _MIN_TIMEOUT), _MAX_TIMEOUT)
                client.send("GET", "/readyz", decode=_decode, timeout=timeout).result()
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
    if as_json:
        echo_json({"ready": True, "url": url})
    else:
        echo(f"ready  {url}")
