"""The command line: the group of all commands, and its exit codes."""

import contextlib
import errno
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from typing import Any, TextIO

import click
from click.exceptions import Exit

from paymock import __version__

COMMANDS = {
    "serve": "serve",
    "create": "payments",
    "watch": "payments",
    "payment": "payments",
    "payments": "payments",
    "advance": "clock",
    "clock": "clock",
    "wait": "payments",
    "deposit": "payments",
    "next": "sandbox",
    "requests": "sandbox",
    "reset": "sandbox",
    "ready": "ready",
    "demo": "demo",
}
"""The commands that have a module of their own, in the order of the help, and that module."""

_INTERRUPTED = 130
_BROKEN_PIPE = 141
"""128 plus the number of SIGPIPE: what a shell reports of a command that wrote to a closed pipe."""


class OutputClosed(Exception):
    """The reader of standard output has closed it."""


@contextlib.contextmanager
def _exit_codes() -> Iterator[None]:
    """Turn an interrupt, a closed output and other errors of the system into exit codes."""
    try:
        yield
    except KeyboardInterrupt:
        raise Exit(_INTERRUPTED) from None
    except OSError as error:
        if error.errno == errno.EPIPE:
            raise OutputClosed from None  # click would exit with 1, which means a refusal
        if error.errno == errno.ENOSPC:
            _discard(sys.stdout)
        raise click.ClickException(error.strerror or str(error)) from None


class LazyGroup(click.Group):
    """A group that imports the commands of `COMMANDS` when they are used."""

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of all commands, in the order of the help."""
        return [*COMMANDS, *self.commands]

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """Import the command of this name."""
        if cmd_name not in COMMANDS:
            return super().get_command(ctx, cmd_name)
        module = import_module(f"paymock.cli.{COMMANDS[cmd_name]}")
        command: click.Command = getattr(module, cmd_name)
        return command

    def make_context(self, *args: Any, **extra: Any) -> click.Context:
        """Parse the command line, or print the help."""
        with _exit_codes():
            return super().make_context(*args, **extra)

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command."""
        with _exit_codes():
            return super().invoke(ctx)


@click.group(
    cls=LazyGroup, context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110}
)
@click.version_option(__version__, message="%(prog)s %(version)s")
def cli() -> None:
    """A mock of a crypto payment-collection service. No real funds move."""


@cli.command()
def scenarios() -> None:
    """List the scenarios."""
    from paymock.rules.tables import scenario_rows  # imported here, since only this command needs it

    rows = scenario_rows()
    widths = [max(len(row[column]) for row in rows) for column in range(3)]
    for row in rows:
        cells = [cell.ljust(width) for cell, width in zip(row[:3], widths, strict=True)]
        click.echo("  ".join([*cells, row.description]))


def main() -> None:
    """Run the command line."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: output to it is discarded
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    try:
        cli(prog_name="paymock")
    except (OutputClosed, BrokenPipeError):
        _discard(sys.stdout, sys.stderr)
        sys.exit(_BROKEN_PIPE)


def _discard(*streams: TextIO) -> None:
    """Discard what the streams still hold, which Python would fail to write when it exits."""
    devnull = os.open(os.devnull, os.O_WRONLY)
    for stream in streams:
        os.dup2(devnull, stream.fileno())
