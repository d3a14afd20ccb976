"""Payments followed until their last change, without polling: the commands `watch` and `demo`.

The server answers a wait at the next change, and the timeline says when that is due. Between two replies, the
age of a payment is computed from the time that passes here.
"""

import os
import sys
import time
from collections.abc import Iterator, Sequence

import click
import msgspec

from paymock.cli.api import ApiClient, api_errors, temporary_server, with_client
from paymock.cli.options import Number, as_json, payment_argument
from paymock.cli.output import echo, echo_json, wait_readable
from paymock.client.sandbox import GRACE_PERIOD
from paymock.client.text import timeline_line
from paymock.rules.clock import MAX_SPEED
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.times import parse_rfc3339
from paymock.schemas.control import PaymentDetail, TimelineEntry
from paymock.settings import OPEN_KEY_EXAMPLE

_WAIT_SECONDS = {True: 5, False: 30}
"""Live or not: seconds after which a payment is read again without a change. The server does not report a
change of speed, which only a live display shows.
"""


class PaymentFollower:
    """A payment as last read from the server, and a pending wait for its next change.

    Raises Refused, Unreachable.
    """

    def __init__(self, client: ApiClient, payment_id: str, *, live: bool) -> None:
        self._client = client
        self._payment_id = payment_id
        self._wait_seconds = _WAIT_SECONDS[live]
        self._reported = 0
        self._read()

    def _read(self) -> None:
        # The wait is sent first, so that a change after the read of the payment is not missed.
        self._wait = self._client.send(
            "waitForPayment",
            payment_id=self._payment_id,
            query={"timeout": self._wait_seconds},
            timeout=self._wait_seconds + GRACE_PERIOD,
        )
        self.detail = msgspec.convert(self._client.detail(self._payment_id), PaymentDetail)
        self.speed: float = self._client.clock()["speed"]
        self._read_at = time.monotonic()

    def fileno(self) -> int:
        """The socket of the wait, which is readable when the payment should be read again."""
        return self._wait.fileno()

    def refresh(self) -> None:
        """Read the payment again, after the wait has been answered."""
        self._wait.result()
        self._read()

    @property
    def timeline(self) -> list[TimelineEntry]:
        return self.detail.timeline

    @property
    def next_entry(self) -> TimelineEntry | None:
        """The next change; None after the last one."""
        return next((entry for entry in self.timeline if not entry.reached), None)

    @property
    def end(self) -> float:
        return self.timeline[-1].offset_seconds

    @property
    def elapsed(self) -> float:
        """The age of the payment in seconds of its own clock, at most that of the next change."""
        if self.next_entry is None:
            return self.end
        detail = self.detail
        age = ((parse_rfc3339(detail.now) or 0) - (parse_rfc3339(detail.payment.created_at) or 0)) / 1000
        estimate = age + (time.monotonic() - self._read_at) * self.speed
        return min(estimate, self.next_entry.offset_seconds)

    def new_entries(self) -> list[TimelineEntry]:
        """The changes since the last call."""
        reached = [entry for entry in self.timeline if entry.reached]
        new, self._reported = reached[self._reported :], len(reached)
        return new


def follow(followers: Sequence[PaymentFollower], redraw_seconds: float | None) -> Iterator[None]:
    """Yield at every change of a payment until all have ended, and every `redraw_seconds` while a clock runs.

    Raises Refused, Unreachable.
    """
    yield
    while active := [follower for follower in followers if follower.next_entry]:
        running = any(follower.speed for follower in active)
        by_socket = {follower.fileno(): follower for follower in active}
        for socket in wait_readable(redraw_seconds if running else None, by_socket):
            by_socket[socket].refresh()
        yield


def _print_changes(followers: Sequence[PaymentFollower], *, as_json: bool, with_scenario: bool) -> None:
    """Print one line for each change until all payments have ended."""
    for _ in follow(followers, None):
        changes = [(entry, follower.detail) for follower in followers for entry in follower.new_entries()]
        for entry, detail in sorted(changes, key=lambda change: change[0].offset_seconds):
            if as_json:
                echo_json(
                    {
                        "payment_id": detail.payment.id,
                        "scenario": detail.scenario,
                        "at": entry.at,
                        "offset_seconds": entry.offset_seconds,
                        "event": entry.event,
                        "status": entry.status,
                    }
                )
            else:
                scenario = f"{detail.scenario:<18}  " if with_scenario else ""
                echo(scenario + timeline_line(entry.offset_seconds, entry.status, entry.event))


def _is_live(*, as_json: bool) -> bool:
    return sys.stdout.isatty() and os.environ.get("TERM") != "dumb" and not as_json


@click.command
@with_client
@payment_argument
@as_json
def watch(client: ApiClient, *, payment_id: str, as_json: bool) -> None:
    """Follow a payment until its last change.

    By default, the newest payment. On a terminal, a live display; in a pipe, one line for each change; with
    --json, one JSON document a line.
    """
    live = _is_live(as_json=as_json)
    follower = PaymentFollower(client, client.resolve(payment_id), live=live)
    if live:
        from paymock.cli import drawing  # imported here, since rich takes long to import

        drawing.show([follower], lambda symbols, _: drawing.payment_view(follower, symbols))
    else:
        _print_changes([follower], as_json=as_json, with_scenario=False)


@click.command
@click.option("--speed", type=Number(0.1, MAX_SPEED), default=5, help="Speed factor, relative to real time.")
@as_json
@api_errors()
def demo(*, speed: float, as_json: bool) -> None:
    """Play all scenarios side by side.

    On a temporary server. On a terminal, a live display; in a pipe, one line for each change; with --json,
    one JSON document a line.
    """
    live = _is_live(as_json=as_json)
    with temporary_server() as url:
        client = ApiClient(url, OPEN_KEY_EXAMPLE)
        client.freeze()  # so that all payments are created at the same time
        payments = [client.create(scenario, order_id=scenario) for scenario in SCENARIOS]
        client.speed(speed)
        followers = [PaymentFollower(client, payment["id"], live=live) for payment in payments]
        if live:
            from paymock.cli import drawing  # imported here, since rich takes long to import

            title = f"{len(followers)} payments, one for each scenario, at {speed:g} times real time"
            drawing.show(followers, lambda *screen: drawing.overview(followers, title, *screen))
        else:
            _print_changes(followers, as_json=as_json, with_scenario=True)
