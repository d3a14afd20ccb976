"""Commands that are useful next, as the user can type them."""

import shlex
import shutil
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import NamedTuple

import click

from paymock.cli.common_options import KEY_FROM_VARIABLE, is_given


class Step(NamedTuple):
    """A command without the name of the program, and what it does."""

    command: str
    purpose: str
    needs_server: bool = True


DEMO = Step("demo", "Play all scenarios, without a server", needs_server=False)
CREATE = Step("create", "Create a payment")
HELP = Step("--help", "List all commands", needs_server=False)
AFTER_CREATION = (
    Step("watch", "Follow the payment until its last change"),
    Step("advance --to next", "Advance it to its next change"),
    Step("payment", "Show it with its timeline"),
)


def next_commands(steps: Sequence[Step]) -> list[str]:
    """The command line of each step, for the server and the sandbox that the options name. It may end up in a
    log, and names the variable of the API key in its place.
    """
    ctx = click.get_current_context()
    url = f"--url {shlex.quote(ctx.params['url'])} " if is_given(ctx, "url") else ""
    common = url + (f"{KEY_FROM_VARIABLE} " if is_given(ctx, "key") else "")
    return [f"{program()} {common if step.needs_server else ''}{step.command}" for step in steps]


def next_lines(steps: Sequence[Step]) -> list[str]:
    """A heading, and a line for each step."""
    commands = next_commands(steps)
    width = max(map(len, commands))
    rows = zip(commands, steps, strict=True)
    return ["Next:", *(f"  {command:<{width}}  {step.purpose}" for command, step in rows)]


def program() -> str:
    """How a shell in this folder starts paymock: by its name if that is on the path."""
    if shutil.which("paymock"):
        return "paymock"
    script = Path(sys.executable).with_name("paymock")
    if not script.exists():
        return f"{shlex.quote(sys.executable)} -m paymock"
    folder = Path.cwd()
    return shlex.quote(str(script.relative_to(folder) if script.is_relative_to(folder) else script))
