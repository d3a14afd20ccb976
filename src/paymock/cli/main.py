"""The command line. Every option of `serve` has an environment variable; a flag wins over it, and it over
the default. The commands that talk to a server are in `commands`, each imported when it is asked for.
"""

import contextlib
import errno
import os
import re
import signal
import sys
from collections.abc import Callable, Iterator
from importlib import import_module
from pathlib import Path
from typing import Any, TypeVar

import click
from click.exceptions import Exit

from paymock import __version__
from paymock.rules.amounts import DEFAULT_FEE_BPS, MAX_FEE_BPS
from paymock.rules.clock import MAX_SPEED
from paymock.server import garbage_collection
from paymock.settings import DEFAULT_PORT, MAX_WORKERS, MEMORY_STORE, Settings, SettingsError

F = TypeVar("F", bound=Callable[..., Any])


class CommaSeparated(click.types.StringParamType):
    """A text; in an environment variable, several of them, separated by commas."""

    envvar_list_splitter = ","

    def split_envvar_value(self, rv: str) -> list[str]:
        """The parts of an environment variable, without the space around the commas."""
        parts = [part.strip() for part in rv.split(",")]
        if not all(parts):
            self.fail("there is nothing before or after a comma")
        return parts


class Duration(click.ParamType[int]):
    """A number of hours or days, in seconds."""

    name = "time"

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> int:
        """The seconds that `value`, like 36h or 30d, stands for."""
        match = _DURATION.fullmatch(str(value))
        if match is None or int(match[1]) * _HOURS[match[2]] < 24:
            self.fail(f"{value!r} is not a time of at least 24 hours, like 36h or 30d", param, ctx)
        return int(match[1]) * _HOURS[match[2]] * 3600


_DURATION = re.compile("([0-9]{1,5})([hd])")
_HOURS = {"h": 1, "d": 24}

COMMANDS = {
    "create": "payments",
    "watch": "watch",
    "payment": "payments",
    "payments": "payments",
    "advance": "clock",
    "clock": "clock",
    "wait": "clock",
    "deposit": "payments",
    "next": "overrides",
    "requests": "sandbox",
    "reset": "sandbox",
    "ready": "sandbox",
    "demo": "demo",
}
"""The commands that talk to a server, and the module of each."""

_INTERRUPTED = 130
_UNREAD = 141
"""128 plus the number of SIGPIPE: what a shell reports of a command that wrote to a closed pipe."""


class Unread(Exception):
    """Nobody reads what a command prints any longer."""


@contextlib.contextmanager
def _endings() -> Iterator[None]:
    """An interrupt is no error, and neither is a reader that has had enough; both have an exit status."""
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(_INTERRUPTED) from None
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise Unread from None  # click would exit with 1, which means a refusal
        raise click.ClickException(error.strerror or str(error)) from None


class Commands(click.Group):
    """The commands below and those of `COMMANDS`."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order in which the help shows them."""
        return [*self.commands, *COMMANDS]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name, imported now."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"paymock.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Reads the command line, and prints the help if that is asked for."""
        with _endings():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Carries out the command that was asked for."""
        with _endings():
            return super().invoke(ctx)


@click.group(cls=Commands, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110})
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """A mock of a crypto payment-collection service. No real funds move."""


def option(flag: str, *names: str, **settings: Any) -> Callable[[F], F]:
    """An option of `serve`, with its environment variable: PAYMOCK_ and the flag's own name."""
    variable = "PAYMOCK_" + flag.partition("/")[0].removeprefix("--").replace("-", "_").upper()
    return click.option(flag, *names, envvar=variable, show_envvar=True, **settings)


@cli.command()
@option("--host", help="Address to bind. [default: 127.0.0.1 and ::1]")
@option(
    "--port",
    type=click.IntRange(0, 65535),
    default=DEFAULT_PORT,
    show_default=True,
    help="Port; 0 picks a free one.",
)
@option(
    "--api-key",
    "api_keys",
    multiple=True,
    type=CommaSeparated(),
    metavar="KEY",
    help="Accept this API key, and only those given. Repeatable. [default: open mode, any mk_test_NAME]",
)
@option("--open/--no-open", help="Allow open mode beyond loopback.")
@option(
    "--allowed-host",
    "allowed_hosts",
    multiple=True,
    type=CommaSeparated(),
    metavar="HOST",
    help="Also answer to this name in the Host header. Repeatable.",
)
@option(
    "--frame-ancestors",
    multiple=True,
    type=CommaSeparated(),
    metavar="ORIGIN",
    help="Let pages of this origin embed the checkout. Repeatable. [default: none]",
)
@option(
    "--fee-bps",
    type=click.IntRange(0, MAX_FEE_BPS),
    default=DEFAULT_FEE_BPS,
    show_default=True,
    help="Service fee in hundredths of a percent.",
)
@option(
    "--catalog",
    type=click.Path(path_type=Path),
    help="TOML file of chains and assets, in place of the built-in one.",
)
@option(
    "--speed",
    type=click.FloatRange(0, MAX_SPEED),
    default=1,
    show_default=True,
    help="How much faster than real time every sandbox runs, until a test changes it.",
)
@option("--seed", help="Make ids, addresses and hashes reproducible.")
@option(
    "--store",
    default=MEMORY_STORE,
    show_default=True,
    metavar="URL",
    help="Where payments are kept: memory://, sqlite:///path/file.db, redis://, rediss:// or redis+cluster://.",
)
@option(
    "--workers",
    type=click.IntRange(1, MAX_WORKERS),
    default=1,
    show_default=True,
    help="Processes that serve together, on a store that they can share.",
)
@option(
    "--max-payments",
    type=click.IntRange(1),
    help="Room for payments, in all sandboxes together. [default: 1000000 in memory, else no limit]",
)
@option(
    "--retention",
    type=Duration(),
    metavar="TIME",
    help="Let Redis forget what was created longer ago: 36h, 30d; at least 24h. [default: never]",
)
@option(
    "--ready-file",
    type=click.Path(path_type=Path),
    help="Write URL, port and process id here, as JSON, once the server answers.",
)
@option(
    "--log", type=click.Choice(["text", "json"]), default="text", show_default=True, help="Form of the log."
)
@option(
    "--metrics-address",
    metavar="HOST:PORT",
    help="Tell figures for Prometheus here, at /metrics; needs the extra `metrics`. [default: none]",
)
@option("--no-access-log/--access-log", help="Do not log requests.")
@option("--no-fast-path/--fast-path", help="Answer everything through ASGI: slower, the same replies.")
@option("--no-control/--control", help="Leave out the control API, /_mock, and faults.")
def serve(**options: Any) -> None:
    """Start the server."""
    # Until the server takes them over, in a tenth of a second. An exception would not do: Python ignores
    # those of some callbacks, and the signal would be lost.
    for number in (signal.SIGINT, signal.SIGTERM):
        signal.signal(number, lambda *_: os._exit(0))
    garbage_collection.suspend()
    from paymock.resources.catalog import CatalogError  # here, since all this takes a moment
    from paymock.server.run import StartError
    from paymock.server.run import serve as serve_forever

    try:
        serve_forever(settings_of(**options), sys.stdout)
    except (SettingsError, CatalogError, StartError) as error:
        raise click.ClickException(str(error)) from None


def settings_of(*, no_access_log: bool, no_control: bool, no_fast_path: bool, **options: Any) -> Settings:
    """What the options of `serve` stand for. Raises SettingsError."""
    return Settings(
        access_log=not no_access_log, control=not no_control, fast_path=not no_fast_path, **options
    )


@cli.command()
def scenarios() -> None:
    """Print the scenario table."""
    from paymock.rules.tables import scenario_rows

    rows = scenario_rows()
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        click.echo(
            "  ".join(
                [*(cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)), row.simulates]
            )
        )


def main() -> None:
    """Run the command line."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: what goes there is lost, and no error
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    try:
        cli(prog_name="paymock")
    except (Unread, BrokenPipeError):
        nowhere = os.open(os.devnull, os.O_WRONLY)
        for stream in (sys.stdout, sys.stderr):  # Python writes there what is left when it ends
            os.dup2(nowhere, stream.fileno())
        sys.exit(_UNREAD)
