"""How commands end that cannot do what they are told, and their exit statuses."""

from typing import Any

import click

from paymock.cli.output import printable
from paymock.client.http import Refused, Unreachable


class Failure(click.ClickException):
    """The end of a command, with the lines that tell why."""

    def __init__(self, *lines: str) -> None:
        super().__init__("\n".join(map(printable, lines)))


class Denied(Failure):
    """The server said no."""

    exit_code = 1


class Unanswered(Failure):
    """Nothing answers, or something that is not paymock."""

    exit_code = 3


class Late(Failure):
    """What was waited for did not come in time."""

    exit_code = 4


class Command(click.Command):
    """A command that talks to a server. A refusal is shown with its code, its message and every detail, one a
    line.
    """

    def invoke(self, ctx: click.Context) -> Any:
        """Carries out the command."""
        try:
            return super().invoke(ctx)
        except Refused as refused:
            problems = [f"  {problem['field']}: {problem['message']}" for problem in refused.details]
            raise Denied(f"{refused.code}: {refused.message}", *problems) from None
        except Unreachable as unreachable:
            raise Unanswered(str(unreachable)) from None
