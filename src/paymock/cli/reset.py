"""The command `reset`."""

import sys

import click

from paymock.cli.api import ApiClient, with_client
from paymock.cli.options import as_json
from paymock.cli.output import show


@click.command
@with_client
@click.option("--yes", "-y", is_flag=True, help="Do not ask, as a terminal does.")
@as_json
def reset(client: ApiClient, *, yes: bool, as_json: bool) -> None:
    """Empty the sandbox.

    Deletes payments, idempotency keys, webhook endpoints, overrides, fault rules and the journal, and resets
    the clock.
    """
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        click.confirm("Delete all payments of the sandbox, and all else in it?", abort=True, err=True)
    client.call("reset")
    show({"reset": True}, [], as_json=as_json, empty="the sandbox is empty")
