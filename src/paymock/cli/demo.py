"""The command `demo`."""

import click

from paymock.cli.api_client import ApiClient
from paymock.cli.common_options import as_json
from paymock.cli.errors import ApiCommand
from paymock.cli.follower import PaymentFollower, is_terminal, print_changes
from paymock.cli.options import Number
from paymock.cli.temporary_server import temporary_server
from paymock.rules.clock import MAX_SPEED
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import OPEN_KEY_EXAMPLE


@click.command(cls=ApiCommand)
@click.option(
    "--speed",
    type=Number(0.1, MAX_SPEED),
    default=5,
    show_default=True,
    help="Speed factor, relative to real time.",
)
@as_json
def demo(*, speed: float, as_json: bool) -> None:
    """Play all scenarios side by side.

    On a temporary server. On a terminal, a live display; in a pipe, one line for each change; with --json,
    one JSON document a line.
    """
    live = is_terminal() and not as_json
    with temporary_server() as url:
        client = ApiClient(url, OPEN_KEY_EXAMPLE)
        client.freeze()  # so that all payments are created at the same time
        payments = [client.create(scenario, order_id=scenario) for scenario in SCENARIOS]
        client.speed(speed)
        followers = [PaymentFollower(client, payment["id"], live=live) for payment in payments]
        if live:
            from paymock.cli import drawing  # imported here, since rich takes long to import

            title = f"{len(followers)} payments, one for each scenario, at {speed:g} times real time"
            drawing.show(followers, lambda symbols: drawing.overview(followers, title, symbols))
        else:
            print_changes(followers, as_json=as_json, with_scenario=True)
