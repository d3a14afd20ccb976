"""`demo`: all scenarios side by side, on a server of their own."""

from collections.abc import Iterator
from contextlib import contextmanager

import click

from paymock.cli.api_client import Client
from paymock.cli.errors import Command, Unanswered
from paymock.cli.follower import PaymentFollower, on_a_terminal, tell
from paymock.cli.options import Number, as_json
from paymock.cli.order import creation
from paymock.client.http import path_of
from paymock.rules.clock import MAX_SPEED
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.control import Clock
from paymock.schemas.public import Payment
from paymock.settings import OPEN_KEY_EXAMPLE, Settings


@click.command(cls=Command)
@click.option(
    "--speed",
    type=Number(0.1, MAX_SPEED),
    default=5,
    show_default=True,
    help="How much faster than life.",
)
@as_json
def demo(*, speed: float, as_json: bool) -> None:
    """Play all scenarios side by side.

    On a server of their own, which ends with them. On a terminal, live bars; in a pipe, one line for each
    change; with --json, one JSON document a line.
    """
    live = on_a_terminal() and not as_json
    with _server() as url:
        client = Client(url, OPEN_KEY_EXAMPLE)
        _run_at(client, 0)  # so that all payments are created at the same time
        paths = [path_of(_created(client, scenario).id) for scenario in SCENARIOS]
        _run_at(client, speed)
        courses = [PaymentFollower(client, path, live=live) for path in paths]
        if live:
            from paymock.cli import drawing  # rich takes long to import, and only a picture needs it

            title = f"{len(courses)} payments, one for each scenario, {speed:g} times as fast as life"
            drawing.show(courses, lambda signs: drawing.many(courses, title, signs))
        else:
            tell(courses, as_json=as_json, named=True)


def _run_at(client: Client, speed: float) -> None:
    client.call(Clock, "PUT", "/_mock/clock", body={"speed": speed}).result()


def _created(client: Client, scenario: str) -> Payment:
    headers = {"Idempotency-Key": f"demo-{scenario}", "X-Mock-Scenario": scenario}
    return client.call(Payment, "POST", "/v1/payments", body=creation(scenario), headers=headers).result()


@contextmanager
def _server() -> Iterator[str]:
    """The URL of a server on a free port, in a thread, for as long as the block lasts."""
    # These are costly to import, and only a demo needs them.
    from paymock.server.run import StartError, in_thread
    from paymock.web.telemetry.access_log import RequestLog

    try:
        with in_thread(Settings(port=0), RequestLog(None, requests=False), grace=0) as url:
            yield url
    except StartError as error:
        raise Unanswered(str(error)) from None
