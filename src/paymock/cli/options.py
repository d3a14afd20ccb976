"""Options and arguments that several commands share, and their types. --url, --key and --json stand before a
command or after it.

This module is imported for every command, and imports nothing that takes long.
"""

import json
import re
from collections.abc import Callable, Iterable, Mapping, Sequence
from contextlib import suppress
from functools import partial
from math import inf, nan
from pathlib import Path
from typing import Any

import click
from click.core import ParameterSource

from paymock.rules.clock import now_problem
from paymock.settings import DEFAULT_PORT, OPEN_KEY_EXAMPLE

_VISIBLE_ASCII = re.compile("[!-~]+")
_PART_OF_DURATION = re.compile(r"([0-9]*\.?[0-9]+)(ms|[smhd])")
_SHORT_NAMES = {"rm": "delete", "ls": "list"}
_UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3_600, "d": 86_400}

KEY_FROM_VARIABLE = '--key "$PAYMOCK_API_KEY"'
"""In a command line that is shown: the option, without the key."""

NEWEST = "newest"
"""In place of a payment id: the payment that was created last."""

PAYMENT = f"ID|ORDER|{NEWEST}"
"""How a command names a payment; of several for an order, the newest."""


def _parse_header(ctx: click.Context, param: click.Parameter, value: str | None) -> str | None:
    if value is not None and not _VISIBLE_ASCII.fullmatch(value):
        raise click.BadParameter("must be visible ASCII characters, without spaces")
    return value


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
    """A group of commands, in their order. An error suggests the one that is meant, according to `guesses`
    for a word that other programs use: several are separated by `|`.
    """

    guesses: Mapping[str, str] = {}

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(self.commands)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return super().get_command(ctx, _SHORT_NAMES.get(cmd_name, cmd_name))

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError as error:
            hint = _did_you_mean(args[0], self.list_commands(ctx), self.guesses)
            raise click.UsageError(error.message + hint, error.ctx) from None


class Choice(click.Choice):  # type: ignore[type-arg]  # no subscript before click 8.2
    """One of several words. An error suggests the one that is meant, first according to `guesses`."""

    guesses: Mapping[str, str] = {}

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        try:
            return str(super().convert(value, param, ctx))
        except click.BadParameter as error:
            self.fail(error.message + _did_you_mean(str(value), self.choices, self.guesses), param, ctx)


def _did_you_mean(word: str, known: Sequence[str], guesses: Mapping[str, str] | None = None) -> str:
    """A question that names what is meant by a word, or the most similar of the known ones, if any."""
    from difflib import get_close_matches  # imported here, since only errors need it

    meant = (guesses or {}).get(word.lower())
    matches = meant.split("|") if meant else get_close_matches(word.lower(), known, 1)
    return f" Did you mean {' or '.join(map(repr, matches))}?" if matches else ""


class ServerUrl(click.ParamType):  # type: ignore[type-arg]  # no subscript before click 8.4
    """The URL of a server. Before a command it is left to the command, which may have another."""

    name = "URL"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> str:
        from paymock.client.http import normalize_url  # imported here, since it takes long

        try:
            return str(value) if ctx and isinstance(ctx.command, click.Group) else normalize_url(value)
        except ValueError as error:
            self.fail(str(error).removeprefix("the URL of a server "), param, ctx)


class Number(click.ParamType):  # type: ignore[type-arg]  # no subscript before click 8.4
    """A number within a range."""

    name = "number"
    like = ""

    def __init__(self, low: float, high: float = inf) -> None:
        self.low, self.high = low, high

    def parse(self, text: str) -> float:
        """Raises ValueError."""
        return float(text)

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> float:
        number = nan
        with suppress(ValueError):
            number = self.parse(str(value))
        if not self.low <= number <= self.high:
            limits = f"from {self.low:,} to {self.high:,}" if self.high < inf else f"of at least {self.low:,}"
            self.fail(f"{str(value)!r} is not a {self.name} {limits}{self.like}", param, ctx)
        return number


class Integer(Number):
    """A whole number within a range."""

    name = "whole number"

    def parse(self, text: str) -> int:
        return int(text)


class Duration(Number):
    """A duration, converted to seconds: a number of seconds, or like 1m30s."""

    name = "duration"
    like = " seconds, like 45 or 1m30s"

    def parse(self, text: str) -> float:
        parts = _PART_OF_DURATION.findall(text)
        if parts and "".join(map("".join, parts)) == text:
            return sum(float(number) * _UNITS[unit] for number, unit in parts)
        return float(text)


def moment(value: str) -> str:
    """A time to which a clock can be set, as RFC 3339. The seconds may be left out."""
    text = re.sub("(?<=[Tt][0-9]{2}:[0-9]{2})(?=[Zz+-])", ":00", value)
    if problem := now_problem(text):
        raise click.BadParameter(f"{value!r} {problem}")
    return text


def gone(instead: str) -> dict[str, Any]:
    """An option of earlier versions is refused, and its environment variable: ignored, they would mislead."""

    def refuse(ctx: click.Context, option: click.Parameter, value: object) -> None:
        if value is not None:
            raise click.UsageError(f"{option.get_error_hint(ctx)} no longer exists: {instead}")

    return {"expose_value": False, "hidden": True, "default": None, "callback": refuse}


UP_TO_A_DAY = Duration(0, 86_400)
FILE = click.Path(path_type=Path)
Completion = Callable[[click.Context, click.Parameter, str], list[str]]


def completion(words: Callable[[click.Context], Iterable[str]]) -> Completion:
    """What a shell offers for an option: those of the words that begin with what has been typed."""
    return lambda ctx, _, incomplete: [word for word in words(ctx) if word.startswith(incomplete)]


def complete_ids(operation: str, *members: str, also: Sequence[str] = ()) -> Completion:
    """What a shell offers for an id: those that the server lists, if one runs."""

    def words(ctx: click.Context) -> Iterable[str]:
        from paymock.client.sandbox import Sandbox  # imported here, since it takes long

        with suppress(Exception), Sandbox(ctx.params["url"], ctx.params["key"]) as sandbox:
            listed = sandbox.call(operation, timeout=5)["data"]
            return dict.fromkeys([*also, *(one[member] for member in members for one in listed)])
        return also

    return completion(words)


complete_payment = complete_ids("listPayments", "order_id", "id", also=[NEWEST])
complete_rule = complete_ids("listFaults", "id")

server_url = click.option(
    "--url",
    cls=CommonOption,
    type=ServerUrl(),
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
    callback=lambda ctx, param, keys: _parse_header(ctx, param, keys.partition(",")[0].strip()),
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
    "payment_id", metavar=f"[{PAYMENT}]", default=NEWEST, shell_complete=complete_payment
)


def repetitions(times: int | None, *, always: bool) -> int | None:
    """The value of --times, by default 1; None for --always."""
    if always and times:
        raise click.UsageError("Give --times or --always, not both.")
    return None if always else times or 1


def _metadata(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> Any:
    """Merge entries KEY=VALUE and JSON objects; the last value of a key wins."""
    metadata: dict[str, Any] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if text.startswith("{"):
            try:
                metadata |= json.loads(text, parse_constant=int)  # which refuses NaN
            except (ValueError, RecursionError):
                raise click.BadParameter("is not a JSON object") from None
        elif equals:
            metadata[key] = value
        else:
            raise click.BadParameter("must be KEY=VALUE or a JSON object")
    return metadata if values else None


metadata_option = partial(click.option, "--metadata", callback=_metadata, multiple=True, metavar="KEY=VALUE")
