"""`watch`: one payment on its way."""

import click

from paymock.cli.api_client import Client
from paymock.cli.errors import Command
from paymock.cli.follower import PaymentFollower, on_a_terminal, tell
from paymock.cli.options import NEWEST, as_json, found, with_client
from paymock.client.http import path_of


@click.command(cls=Command)
@with_client
@click.argument("payment_id", metavar="[ID]", default=NEWEST)
@as_json
def watch(client: Client, *, payment_id: str, as_json: bool) -> None:
    """Follow a payment until its course ends.

    Without ID, the newest. On a terminal, a live picture; in a pipe, one line for each change; with --json,
    one JSON document a line.
    """
    live = on_a_terminal() and not as_json
    course = PaymentFollower(client, path_of(found(client, payment_id)), live=live)
    if live:
        from paymock.cli import drawing  # rich takes long to import, and only a picture needs it

        drawing.show([course], lambda signs: drawing.one(course, signs))
    else:
        tell([course], as_json=as_json, named=False)
