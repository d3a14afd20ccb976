"""The command line: the group of all commands, and its exit codes."""

import contextlib
import errno
import json
import os
import sys
from collections.abc import Iterator
from importlib import import_module
from itertools import takewhile
from typing import Any, TextIO

import click

from paymock import __version__
from paymock.cli.options import CommandGroup, api_key, as_json, is_given, server_url

COMMANDS = {
    "Server": {"serve": "serve", "exec": "exec", "ready": "ready"},
    "Payments": dict.fromkeys(("create", "payments", "payment", "wait"), "payments"),
    "Time and faults": {
        "clock": "clock", "advance": "clock", "deposit": "payments", "next": "scenarios", "fault": "fault",
    },
    "Your application": {
        "requests": "requests", "coverage": "requests", "verify": "verify", "reset": "payments",
        "scenarios": "scenarios",
    },
}  # fmt: skip
"""The commands in the groups and the order of the help, each with its module."""

_MODULES = {name: module for group in COMMANDS.values() for name, module in group.items()}

_GUESSES = {
    "ls": "payments", "list": "payments", "ps": "payments", "get": "payment", "show": "payment",
    "describe": "payment", "logs": "requests", "log": "requests", "status": "ready", "health": "ready",
    "start": "serve", "up": "serve", "run": "serve|exec", "stop": "Ctrl-C", "down": "Ctrl-C",
    "restart": "Ctrl-C|serve", "delete": "reset|fault delete", "rm": "reset|fault delete",
    "version": "--version", "help": "--help", "new": "create", "init": "serve", "pay": "deposit",
    "trigger": "next|deposit|advance", "simulate": "next|deposit|advance", "freeze": "clock freeze",
    "chains": "GET /v1/chains", "webhooks": "wait", "config": "serve --help",
    "watch": "wait|requests --follow", "demo": "serve and its dashboard",
    "completion": "_PAYMOCK_COMPLETE=bash_source paymock",
}  # fmt: skip
"""What is meant by words that other programs use, or that paymock used."""

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

    guesses = _GUESSES

    def list_commands(self, ctx: click.Context) -> list[str]:
        return list(_MODULES)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        return _load(_MODULES[cmd_name], cmd_name) if cmd_name in _MODULES else None

    def format_options(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the commands, one a line, after the heading of their group; then the names of the options."""
        formatter.write_paragraph()
        for heading, names in COMMANDS.items():
            for name in names:
                start = f"{heading:<16}  {name:<9}  "
                summary = _load(_MODULES[name], name).get_short_help_str(formatter.width - len(start))
                formatter.write(f"{start}{summary}\n")
                heading = ""  # noqa: PLW2901 - only the first line has it
        formatter.write_paragraph()
        records = filter(None, (parameter.get_help_record(ctx) for parameter in self.get_params(ctx)))
        flags = ", ".join(flag for flag, _ in records)
        formatter.write_text(f"Options: {flags}. `paymock COMMAND --help` explains a command.")

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
    """A mock crypto-payment API for your tests. No real funds move."""
    if ctx.invoked_subcommand is None:
        with _load("ready", "overview").make_context(None, [], parent=ctx) as overview:
            overview.command.invoke(overview)
    elif ctx.invoked_subcommand in ("serve", "exec"):
        given = [parameter.opts[0] for parameter in cli.params if is_given(ctx, parameter.name or "")]
        if given:
            name = ctx.invoked_subcommand
            raise click.UsageError(f"{given[0]} is not an option of `{name}`, which starts a server.")


def main() -> None:
    """Run the command line; with --json, print errors as the API sends them. Raises KeyboardInterrupt."""
    for name in ("stdout", "stderr"):
        if getattr(sys, name) is None:  # it was closed: output to it is discarded
            setattr(sys, name, os.fdopen(os.open(os.devnull, os.O_WRONLY), "w", closefd=False))
    try:
        try:
            sys.exit(cli.main(prog_name="paymock", standalone_mode=False) or 0)
        except click.Abort:
            click.echo("Aborted!", err=True)
            sys.exit(1)
        except click.ClickException as error:
            if isinstance(error, click.NoSuchOption) and error.option_name[1:2].isdigit():
                message = "Negative numbers are not allowed. Put an argument that begins with - after --"
                error = click.UsageError(f"{message}, as in -- -7.", error.ctx)
            if "--json" in takewhile(lambda word: word != "--", sys.argv):
                code = getattr(error, "code", "usage" if isinstance(error, click.UsageError) else "failed")
                document = getattr(error, "document", {"code": code, "message": error.format_message()})
                click.echo(json.dumps({"error": document}), err=True)
            else:
                error.show()
            sys.exit(error.exit_code)
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
