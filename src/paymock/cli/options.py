"""Options and arguments that several commands share, and their types. --url, --key and --json stand before a
command or after it.

This module is imported for every command, and imports nothing that takes long.
"""

import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from math import isnan
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import click
from click.core import ParameterSource

from paymock.settings import DEFAULT_PORT, OPEN_KEY_EXAMPLE

_HOST = re.compile(r"[A-Za-z0-9._~:-]+")
_VISIBLE_ASCII = re.compile("[!-~]+")

KEY_FROM_VARIABLE = '--key "$PAYMOCK_API_KEY"'
"""In a command line that is shown: the option, without the key."""

NEWEST = "newest"
"""In place of a payment id: the payment that was created last."""


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
    if value is not None and not _VISIBLE_ASCII.fullmatch(value):
        raise click.BadParameter("must be visible ASCII characters, without spaces")
    return value


def _parse_api_key(ctx: click.Context, param: click.Parameter, value: str) -> str | None:
    """The first of the keys, which are separated by commas."""
    return _parse_header(ctx, param, value.partition(",")[0].strip())


class CommonOption(click.Option):
    """An option of a command that is accepted before the command, too. After it takes precedence.

    Its environment variable is read for a command only, so that an invalid value does not break those that
    have no use for it. An error names the variable only if the value came from it.
    """

    def value_from_envvar(self, ctx: click.Context) -> Any:
        return None if isinstance(ctx.command, click.Group) else super().value_from_envvar(ctx)

    def consume_value(self, ctx: click.Context, opts: Mapping[str, Any]) -> tuple[Any, ParameterSource]:
        value, source = super().consume_value(ctx, opts)
        name, group = self.name or "", ctx.parent
        if source is ParameterSource.COMMANDLINE or group is None or not is_given(group, name):
            return value, source
        return group.params[name], ParameterSource.COMMANDLINE

    def get_error_hint(self, ctx: click.Context | None) -> str:
        if self.envvar is None or (ctx is not None and is_given(ctx, self.name or "")):
            return f"'{self.opts[0]}'"
        return f"'{self.opts[0]}' (env var: '{self.envvar}')"


def is_given(ctx: click.Context, name: str) -> bool:
    return ctx.get_parameter_source(name) is ParameterSource.COMMANDLINE


class CommandGroup(click.Group):
    """A group of commands, in their order. An error suggests the one that is meant."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = _did_you_mean(args[0], self.list_commands(ctx))
            raise click.UsageError(error.message + hint, error.ctx) from None


class Choice(click.Choice):  # type: ignore[type-arg]  # no subscript before click 8.2
    """One of several words. An error suggests the one that is meant."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(super().convert(value, param, ctx))
        except click.BadParameter as error:
            self.fail(error.message + _did_you_mean(str(value), self.choices), param, ctx)


def _did_you_mean(word: str, known: Sequence[str]) -> str:
    """A question that names the most similar of the known words; empty when none is similar."""
    from difflib import get_close_matches  # imported here, since only errors need it

    matches = get_close_matches(word.lower(), known, 1)
    return f" Did you mean {matches[0]!r}?" if matches else ""


class Number(click.FloatRange):
    """A number within a range, and not nan."""

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = float(super().convert(value, param, ctx))
        if isnan(number):
            self.fail(f"{value} is not a number", param, ctx)
        return number


SECONDS_OF_A_DAY = Number(0, 86_400)
FILE = click.Path(path_type=Path)


def completion(
    words: Callable[[click.Context], Iterable[str]],
) -> Callable[[click.Context, click.Parameter, str], list[str]]:
    """What a shell offers for an option: those of the words that begin with what has been typed."""
    return lambda ctx, _, incomplete: [word for word in words(ctx) if word.startswith(incomplete)]


complete_newest = completion(lambda _: [NEWEST])

server_url = click.option(
    "--url",
    cls=CommonOption,
    callback=_parse_url,
    metavar="URL",
    envvar="PAYMOCK_URL",
    show_envvar=True,
    default=f"http://127.0.0.1:{DEFAULT_PORT}",
    help="URL of the server.",
)
api_key = click.option(
    "--key",
    "--api-key",
    "key",
    cls=CommonOption,
    callback=_parse_api_key,
    metavar="KEY",
    envvar="PAYMOCK_API_KEY",
    show_envvar=True,
    default=OPEN_KEY_EXAMPLE,
    help="API key, which selects the sandbox.",
)
as_json = click.option("--json", "as_json", cls=CommonOption, is_flag=True, help="Print JSON.")
idempotency_key = click.option(
    "--idempotency-key",
    callback=_parse_header,
    metavar="KEY",
    help="8 to 128 visible ASCII characters. A retry with the same key changes nothing.",
)
payment_argument = click.argument(
    "payment_id", metavar="[ID]", default=NEWEST, shell_complete=complete_newest
)
