"""Options that several commands share, and what their values may be."""

import functools
import re
from collections.abc import Callable
from contextlib import closing, suppress
from math import isnan
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from paymock.cli.api_client import Client
from paymock.cli.errors import Denied
from paymock.client.http import PATIENCE
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.schemas.control import PaymentPage
from paymock.settings import DEFAULT_PORT, OPEN_KEY_EXAMPLE

Command = Callable[..., None]

NEWEST = "newest"
"""In place of an id: the payment that was created last."""

_HOST = re.compile(r"[A-Za-z0-9._~:-]+")
_VISIBLE = re.compile("[!-~]+")


def _server(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """The address of a server, without a slash at its end."""
    with suppress(ValueError):  # a port or an address that is none
        parts = urlsplit(value)
        known = parts.scheme in ("http", "https") and _HOST.fullmatch(parts.hostname or "")
        plain = _VISIBLE.fullmatch(value) and not (parts.username or parts.query or parts.fragment)
        if known and plain and parts.port != 0:
            return value.rstrip("/")
    raise click.BadParameter("must be like http://127.0.0.1:8402")


def _header(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The value of a header: visible ASCII."""
    if value is not None and not _VISIBLE.fullmatch(value):
        raise click.BadParameter("must be visible ASCII characters, without spaces")
    return value


def _first_key(ctx: click.Context, param: click.Parameter, value: str) -> str | None:
    return _header(ctx, param, value.partition(",")[0].strip())


class Number(click.FloatRange):
    """A number within a range; nan is in none."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """The number, if it is one."""
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


class Seconds(Number):
    """A number of seconds, at most `longest`; zero only where `none` is fine."""

    def __init__(self, longest: float, *, none: bool = False) -> None:
        super().__init__(min=0, max=longest, min_open=not none)


UP_TO_A_DAY = Seconds(86_400, none=True)


class EnvironmentOption(click.Option):
    """An option with an environment variable. An error names the variable only if the value came from it."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """What an error is about."""
        if ctx is not None and ctx.get_parameter_source(self.name or "") is ParameterSource.COMMANDLINE:
            return click.Parameter.get_error_hint(self, ctx)
        return super().get_error_hint(ctx)


STATUS = click.Choice([status.value for status in PaymentStatus])
SCENARIO = click.Choice(list(SCENARIOS))

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

idempotency_key = click.option(
    "--idempotency-key",
    callback=_header,
    metavar="KEY",
    help="8 to 128 visible ASCII characters; with the same key, nothing happens twice.",
)

server_url = click.option(
    "--url",
    cls=EnvironmentOption,
    callback=_server,
    metavar="URL",
    envvar="PAYMOCK_URL",
    show_envvar=True,
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="Where the server is.",
)

_key = click.option(
    "--key",
    cls=EnvironmentOption,
    callback=_first_key,
    metavar="KEY",
    envvar="PAYMOCK_API_KEY",
    show_envvar=True,
    default=OPEN_KEY_EXAMPLE,
    show_default=True,
    help="The API key, which is the sandbox.",
)


def with_client(command: Command) -> Command:
    """Gives a command the options --url and --key, and calls it with the client that they stand for."""

    @server_url
    @_key
    @functools.wraps(command)
    def talking(*, url: str, key: str, **options: Any) -> None:
        with closing(Client(url, key)) as client:
            command(client, **options)

    return talking


def found(client: Client, payment_id: str, patience: float = PATIENCE) -> str:
    """The id of a payment; `newest` stands for the one that was created last. Raises Refused, Unreachable."""
    if not payment_id:
        raise click.UsageError("The id of a payment is empty.")
    if payment_id != NEWEST:
        return payment_id
    page = client.get(PaymentPage, "/_mock/payments", query={"limit": 1}, patience=patience)
    if not page.data:
        raise Denied("payment_not_found: This sandbox has no payments. `paymock create` makes one.")
    return page.data[0].id
