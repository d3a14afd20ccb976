"""Exceptions of the commands, and their exit codes."""

from typing import Any

import click

from paymock.client.http import Refused, Unreachable
from paymock.client.text import escape_control


class CommandError(click.ClickException):
    """An error of a command, with the lines of its message."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(escape_control, lines)))


class RequestRefused(CommandError):
    """The server refused the request."""

    exit_code = 1


class ServerUnreachable(CommandError):
    """No server answers, or the server is not paymock."""

    exit_code = 3


class WaitTimedOut(CommandError):
    """The expected event did not come in time."""

    exit_code = 4


class ApiCommand(click.Command):
    """A command that calls the API. Errors of the client become errors of the command."""

    def invoke(self, ctx: click.Context) -> Any:
        """Run the command. Raises RequestRefused with one line for each detail, or ServerUnreachable."""
        try:
            return super().invoke(ctx)
        except Refused as refused:
            problems = [f"  {problem['field']}: {problem['message']}" for problem in refused.details]
            raise RequestRefused(f"{refused.code}: {refused.message}", *problems) from None
        except Unreachable as unreachable:
            raise ServerUnreachable(str(unreachable)) from None
