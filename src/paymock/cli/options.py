"""Options and arguments that several commands share, and the types and completions of their values."""

import functools
from collections.abc import Callable, Iterable, Sequence
from contextlib import closing
from math import isnan
from typing import Any

import click

from paymock.cli.api_client import ApiClient
from paymock.cli.common_options import Choice, api_key, parse_header, server_url
from paymock.cli.errors import RequestRefused
from paymock.cli.output import catalog, catalog_assets
from paymock.client.http import DEFAULT_TIMEOUT
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.rules.scenarios import SCENARIOS, PaymentStatus
from paymock.schemas.public import OPERATION_IDS
from paymock.schemas.scenarios import is_name

CommandFunction = Callable[..., None]
Completion = Callable[[click.Context, click.Parameter, str], list[str]]

NEWEST = "newest"
"""In place of a payment id: the payment that was created last."""


class Number(click.FloatRange):
    """A number within a range, and not nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        """Parse the number."""
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


class ScenarioName(Choice):
    """The name of a scenario. The built-in ones are completed; which others there are, the server knows."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        return str(value) if is_name(str(value)) else super().convert(value, param, ctx)


ONE_DAY = Number(0, 86_400)
"""A number of seconds, at most a day."""


STATUS = Choice([status.value for status in PaymentStatus])
SCENARIO = ScenarioName(list(SCENARIOS))
OPERATION = Choice(OPERATION_IDS)

idempotency_key = click.option(
    "--idempotency-key",
    callback=parse_header,
    metavar="KEY",
    help="8 to 128 visible ASCII characters. A retry with the same key changes nothing.",
)


def _completion(words: Callable[[click.Context], Iterable[str]]) -> Completion:
    return lambda ctx, _, incomplete: [word for word in words(ctx) if word.startswith(incomplete)]


def _assets(ctx: click.Context) -> Iterable[str]:
    chain = ctx.params.get("chain")
    return catalog_assets(chain) if chain else sorted(set().union(*catalog().values()))


complete_newest = _completion(lambda _: [NEWEST])
complete_chain = _completion(lambda _: catalog())
complete_asset = _completion(_assets)

payment_argument = click.argument(
    "payment_id", metavar="[ID]", default=NEWEST, shell_complete=complete_newest
)


def with_client(command: CommandFunction) -> CommandFunction:
    """Add the options --url and --key to a command, and call it with a client of that server."""

    @server_url
    @api_key
    @functools.wraps(command)
    def wrapper(*, url: str, key: str, **options: Any) -> None:
        with closing(ApiClient(url, key)) as client:
            command(client, **options)

    return wrapper


def split_payment_id(arguments: Sequence[str]) -> tuple[str | None, str | None]:
    """The id of a payment and the value in the arguments `[ID] [VALUE]`; None for what is missing."""
    if len(arguments) > 2:
        raise click.UsageError(f"Got unexpected extra argument ({arguments[2]})")
    if len(arguments) == 2:
        return arguments[0], arguments[1]
    if not arguments:
        return None, None
    [argument] = arguments
    is_id = argument == NEWEST or argument.startswith(PAYMENT_PREFIX)
    return (argument, None) if is_id else (None, argument)


def resolve_payment_id(client: ApiClient, payment_id: str, timeout: float = DEFAULT_TIMEOUT) -> str:
    """The id of a payment; `newest` is replaced by the id of the newest. Raises Refused, Unreachable."""
    if not payment_id:
        raise click.UsageError("The payment ID is empty.")
    if payment_id != NEWEST:
        return payment_id
    newest = client.call("listPayments", query={"limit": 1}, timeout=timeout)["data"]
    if not newest:
        raise RequestRefused("payment_not_found: This sandbox has no payments. `paymock create` creates one.")
    return str(newest[0]["id"])
