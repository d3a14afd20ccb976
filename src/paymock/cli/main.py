"""The command line: the group of all commands, and its exit codes."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, TextIO

import click

from paymock import __version__
from paymock.cli.options import CommandGroup, api_key, as_json, is_given, server_url

COMMANDS = {
    "serve": "serve",
    "create": "payments",
    "watch": "live",
    "payment": "payments",
    "payments": "payments",
    "advance": "sandbox",
    "clock": "sandbox",
    "wait": "payments",
    "deposit": "payments",
    "next": "simulation",
    "fault": "simulation",
    "requests": "journal",
    "coverage": "journal",
    "reset": "sandbox",
    "ready": "sandbox",
    "demo": "live",
    "verify": "verify",
    "scenarios": "simulation",
}
"""The commands in the order of the help, each with its module."""

_BROKEN_PIPE = 141
"""128 plus the number of SIGPIPE: what a shell reports of a command that wrote to a closed pipe."""


class OutputClosed(Exception):
    """The reader of standard output has closed it."""


class Interrupted(Exception):
    """A command was interrupted. In place of KeyboardInterrupt, which click turns into exit status 1."""


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    """Raise what click passes on or shows in place of an interrupt and errors of the system."""
    try:
        yield
    except KeyboardInterrupt:
        raise Interrupted from None
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise OutputClosed from None  # click would exit with 1, which means a refusal
        if error.errno == errno.ENOSPC:
            _discard(sys.stdout)
        raise click.ClickException(error.strerror or str(error)) from None


class LazyGroup(CommandGroup):
    """A group that imports the commands of `COMMANDS` when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(COMMANDS)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _load(COMMANDS[cmd_name], cmd_name) if cmd_name in COMMANDS else None

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        with _exit_codes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        with _exit_codes():
            return super().invoke(ctx)


def _load(module: str, name: str) -> click.Command:
    command: click.Command = getattr(import_module(f"paymock.cli.{module}"), name)
    return command


@click.group(
    cls=LazyGroup,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110, "show_default": True},
    invoke_without_command=True,
)
@server_url
@api_key
@as_json
@click.version_option(__version__, message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, /, **common: Any) -> None:
    """A mock of a crypto payment-collection service. No real funds move.

    Without a command, shows the server, its newest payment, and what to do next. The options can also follow
    the command.
    """
    if ctx.invoked_subcommand is None:
        with _load("sandbox", "overview").make_context(None, [], parent=ctx) as overview:
            overview.command.invoke(overview)
    elif ctx.invoked_subcommand == "serve":
        given = [parameter.opts[0] for parameter in cli.params if is_given(ctx, parameter.name or "")]
        if given:
            raise click.UsageError(f"{given[0]} is not an option of `serve`, which starts a server.")


def main() -> None:
    """Run the command line. Raises KeyboardInterrupt."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: output to it is discarded
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    try:
        cli(prog_name="paymock")
    except Interrupted:
        raise KeyboardInterrupt from None
    except (OutputClosed, BrokenPipeError):
        _discard(sys.stdout, sys.stderr)
        sys.exit(_BROKEN_PIPE)


def _discard(*streams: TextIO) -> None:
    """Discard what the streams still hold, which Python would fail to write when it exits."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(devnull, stream.fileno())
