"""Options that several commands share, and the types of their values."""

import functools
import re
from collections.abc import Callable
from contextlib import closing, suppress
from math import isnan
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from paymock.cli.api_client import ApiClient
from paymock.cli.errors import RequestRefused
from paymock.client.http import DEFAULT_TIMEOUT
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.schemas.control import PaymentPage
from paymock.settings import DEFAULT_PORT, OPEN_KEY_EXAMPLE

CommandFunction = Callable[..., None]

NEWEST = "newest"
"""In place of a payment id: the payment that was created last."""

_HOST = re.compile(r"[A-Za-z0-9._~:-]+")
_VISIBLE_ASCII = re.compile("[!-~]+")


def _parse_url(ctx: click.Context, param: click.Parameter, value: str) -> str:
    """The URL of a server, without a trailing slash."""
    with suppress(ValueError):  # an invalid port or address
        parts = urlsplit(value)
        is_http = parts.scheme in ("http", "https") and _HOST.fullmatch(parts.hostname or "")
        is_plain = _VISIBLE_ASCII.fullmatch(value) and not (parts.username or parts.query or parts.fragment)
        if is_http and is_plain and parts.port != 0:
            return value.rstrip("/")
    raise click.BadParameter("must be like http://127.0.0.1:8402")


def _parse_header(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    """The value of a header: visible ASCII."""
    if value is not None and not _VISIBLE_ASCII.fullmatch(value):
        raise click.BadParameter("must be visible ASCII characters, without spaces")
    return value


def _parse_api_key(ctx: click.Context, param: click.Parameter, value: str) -> str | None:
    """The first of the keys, which are separated by commas."""
    return _parse_header(ctx, param, value.partition(",")[0].strip())


class Number(click.FloatRange):
    """A number within a range, and not nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number."""
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


ONE_DAY = Number(0, 86_400)
"""A number of seconds, at most a day."""


class EnvironmentOption(click.Option):
    """An option with an environment variable, which an error names only if the value came from it."""

    def get_error_hint(self, ctx: click.Context | None) -> str:
        """The option that an error is about."""
        if ctx is not None and ctx.get_parameter_source(self.name or "") is ParameterSource.COMMANDLINE:
            return click.Parameter.get_error_hint(self, ctx)
        return super().get_error_hint(ctx)


STATUS = click.Choice([status.value for status in PaymentStatus])
SCENARIO = click.Choice(list(SCENARIOS))

as_json = click.option("--json", "as_json", is_flag=True, help="Print JSON.")

idempotency_key = click.option(
    "--idempotency-key",
    callback=_parse_header,
    metavar="KEY",
    help="8 to 128 visible ASCII characters. A retry with the same key changes nothing.",
)

server_url = click.option(
    "--url",
    cls=EnvironmentOption,
    callback=_parse_url,
    metavar="URL",
    envvar="PAYMOCK_URL",
    show_envvar=True,
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    show_default=True,
    help="URL of the server.",
)

_api_key = click.option(
    "--key",
    cls=EnvironmentOption,
    callback=_parse_api_key,
    metavar="KEY",
    envvar="PAYMOCK_API_KEY",
    show_envvar=True,
    default=OPEN_KEY_EXAMPLE,
    show_default=True,
    help="API key, which selects the sandbox.",
)


def with_client(command: CommandFunction) -> CommandFunction:
    """Add the options --url and --key to a command, and call it with a client of that server."""

    @server_url
    @_api_key
    @functools.wraps(command)
    def wrapper(*, url: str, key: str, **options: Any) -> None:
        with closing(ApiClient(url, key)) as client:
            command(client, **options)

    return wrapper


def resolve_payment_id(client: ApiClient, payment_id: str, timeout: float = DEFAULT_TIMEOUT) -> str:
    """The id of a payment; `newest` is replaced by the id of the newest. Raises Refused, Unreachable."""
    if not payment_id:
        raise click.UsageError("The payment ID is empty.")
    if payment_id != NEWEST:
        return payment_id
    page = client.get(PaymentPage, "/_mock/payments", query={"limit": 1}, timeout=timeout)
    if not page.data:
        raise RequestRefused("payment_not_found: This sandbox has no payments. `paymock create` creates one.")
    return page.data[0].id
