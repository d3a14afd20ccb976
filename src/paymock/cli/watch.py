"""The commands `watch` and `demo`: a line for each change of payments, until the last."""

from collections.abc import Sequence
from typing import Any

import click

from paymock.cli.api import ApiClient, api_errors, temporary_server, with_client
from paymock.cli.options import Number, as_json, payment_argument
from paymock.cli.output import echo, echo_json, wait_readable
from paymock.client.http import Call, Json
from paymock.client.sandbox import GRACE_PERIOD
from paymock.rules.clock import MAX_SPEED
from paymock.rules.scenarios import SCENARIOS
from paymock.settings import OPEN_KEY_EXAMPLE
from paymock.text import timeline_line

_WAIT_SECONDS = 30
"""Seconds after which a payment is read again without a change."""


def _print_changes(
    client: ApiClient, payment_ids: Sequence[str], *, as_json: bool, with_scenario: bool = False
) -> None:
    """Print a line for each change until all payments have ended. Raises Refused, Unreachable."""
    printed = dict.fromkeys(payment_ids, 0)
    unread, waits = [*payment_ids], dict[int, tuple[str, Call[Any]]]()
    while unread or waits:
        changes: list[tuple[Json, Json]] = []
        for payment_id in unread:
            # The wait is sent first, so that no change after the read is missed.
            wait = client.send(
                "waitForPayment",
                payment_id=payment_id,
                query={"timeout": _WAIT_SECONDS},
                timeout=_WAIT_SECONDS + GRACE_PERIOD,
            )
            detail = client.detail(payment_id)
            reached = [entry for entry in detail["timeline"] if entry["reached"]]
            changes += [(entry, detail) for entry in reached[printed[payment_id] :]]
            printed[payment_id] = len(reached)
            if len(reached) < len(detail["timeline"]):
                waits[wait.fileno()] = payment_id, wait
        for entry, detail in sorted(changes, key=lambda change: change[0]["offset_seconds"]):
            scenario = detail["scenario"]
            if as_json:
                change = {name: entry[name] for name in ("at", "offset_seconds", "event", "status")}
                echo_json({"payment_id": detail["payment"]["id"], "scenario": scenario, **change})
            else:
                line = timeline_line(entry["offset_seconds"], entry["status"], entry["event"])
                echo(f"{scenario:<18}  {line}" if with_scenario else line)
        unread = []
        for descriptor in wait_readable(None, waits) if waits else ():
            payment_id, wait = waits.pop(descriptor)
            wait.result()
            unread.append(payment_id)


@click.command
@with_client
@payment_argument
@as_json
def watch(client: ApiClient, *, payment_id: str, as_json: bool) -> None:
    """Follow a payment until its last change.

    By default, the newest payment. Prints one line for each change; with --json, one JSON document a line.
    """
    _print_changes(client, [client.resolve(payment_id)], as_json=as_json)


@click.command
@click.option("--speed", type=Number(0.1, MAX_SPEED), default=5, help="Speed factor, relative to real time.")
@as_json
@api_errors()
def demo(*, speed: float, as_json: bool) -> None:
    """Play all scenarios side by side.

    On a temporary server. Prints one line for each change; with --json, one JSON document a line.
    """
    with temporary_server() as url:
        client = ApiClient(url, OPEN_KEY_EXAMPLE)
        client.freeze()  # so that all payments are created at the same time
        payments = [client.create(scenario, order_id=scenario)["id"] for scenario in SCENARIOS]
        client.speed(speed)
        _print_changes(client, payments, as_json=as_json, with_scenario=True)
