"""`watch`: one payment on its way."""

import click

from paymock.client import path_of
from paymock.commands.client import Client
from paymock.commands.course import Course, on_a_terminal, tell
from paymock.commands.endings import Command
from paymock.commands.options import NEWEST, as_json, found, with_client


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
    course = Course(client, path_of(found(client, payment_id)), live=live)
    if live:
        from paymock.commands import picture  # rich takes long to import, and only a picture needs it

        picture.show([course], lambda signs: picture.one(course, signs))
    else:
        tell([course], as_json=as_json, named=False)
