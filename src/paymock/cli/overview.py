"""What `paymock` prints without a command: the server, the sandbox, and what is needed next."""

from typing import Any
from urllib.parse import urlsplit

import click

from paymock import __version__
from paymock.cli.api_client import ApiClient
from paymock.cli.common_options import as_json
from paymock.cli.next_steps import AFTER_CREATION, CREATE, DEMO, HELP, Step, next_commands, next_lines
from paymock.cli.options import with_client
from paymock.cli.output import echo, echo_json
from paymock.client.http import Refused, Unreachable
from paymock.settings import DEFAULT_PORT

_TIMEOUT = 5.0
"""Seconds until the server must answer."""

_READY = Step("ready --wait 60", "Wait until the server is ready")
_AFTER_REFUSAL = {
    "unauthenticated": Step("--key KEY", "Give an API key of the server", needs_server=False),
    "not_found": CREATE,  # there is no control API
}


@click.command
@with_client
@as_json
def overview(client: ApiClient, *, as_json: bool) -> None:
    """Show whether a server answers, its newest payment, and what is needed next."""
    rows = {"Server": client.url}
    document: dict[str, Any] = {"url": client.url, "newest": None, "problem": None}
    try:
        newest = client.call("listPayments", query={"limit": 1}, timeout=_TIMEOUT)["data"]
    except Unreachable as unreachable:
        rows["Problem"] = document["problem"] = str(unreachable)
        steps = [_serve(client.url), DEMO]
    except Refused as refused:
        rows["Problem"] = document["problem"] = f"{refused.code}: {refused.message}"
        steps = [_AFTER_REFUSAL.get(refused.code, _READY)]
    else:
        rows |= {"Dashboard": f"{client.url}/", "Swagger": f"{client.url}/swagger/"}
        steps = [CREATE]
        for payment in newest:
            document["newest"] = payment
            rows |= {
                "Newest": "{id}  {status}  {scenario}".format(**payment),
                "Checkout": client.checkout_url(payment["id"]),
            }
            steps = [*AFTER_CREATION, CREATE]
    steps.append(HELP)
    if as_json:
        echo_json(document | {"next": next_commands(steps)})
        return
    echo(f"paymock {__version__}    MOCK: no real funds")
    echo(*(f"  {name:<10}{text}" for name, text in rows.items()))
    echo("", *next_lines(steps))


def _serve(url: str) -> Step:
    port = urlsplit(url).port
    option = "" if port in (None, DEFAULT_PORT) else f" --port {port}"
    return Step(f"serve{option}", "Start a server", needs_server=False)
