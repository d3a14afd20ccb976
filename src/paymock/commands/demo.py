"""`demo`: all scenarios side by side, on a server of their own."""

import secrets
import threading
from collections.abc import Iterator
from contextlib import contextmanager

import click

from paymock.commands.client import Client, Unreachable, path_of
from paymock.commands.course import Course, on_a_terminal, tell
from paymock.commands.options import as_json
from paymock.commands.order import creation
from paymock.core.control_wire import Clock
from paymock.core.scenarios import SCENARIOS
from paymock.core.virtual_time import MAX_SPEED
from paymock.core.wire import Payment
from paymock.settings import OPEN_KEY_EXAMPLE, Settings

_START = 10
"""Seconds that the server may take to start."""


@click.command()
@click.option(
    "--speed",
    type=click.FloatRange(0.1, MAX_SPEED),
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
        courses = [Course(client, path, live=live) for path in paths]
        if live:
            from paymock.commands import picture  # rich takes long to import, and only a picture needs it

            title = f"{len(courses)} payments, one for each scenario, {speed:g} times as fast as life"
            picture.show(courses, lambda signs: picture.many(courses, title, signs))
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
    from paymock.catalog_file import load_catalog
    from paymock.clock import system_clock
    from paymock.server import Server, StartError, bind, url_of, uvicorn_config
    from paymock.stores.memory import MemoryStore
    from paymock.web.app import create_app
    from paymock.web.log import RequestLog

    settings, clock = Settings(port=0), system_clock()
    store = MemoryStore(secrets.token_bytes(32), born=clock())
    app = create_app(settings, load_catalog(None), store, clock, RequestLog(None, requests=False))
    try:
        sockets = bind(settings)
    except StartError as error:
        raise Unreachable(str(error)) from None
    ready = threading.Event()
    server = Server(uvicorn_config(app), ready.set)
    thread = threading.Thread(target=server.run, kwargs={"sockets": sockets}, daemon=True)
    thread.start()
    if not ready.wait(_START):
        raise Unreachable(f"the server did not start within {_START} s")
    try:
        yield url_of(settings, sockets)
    finally:
        server.should_exit = server.force_exit = True
        thread.join(_START)
