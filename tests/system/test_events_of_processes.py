"""Server-sent events of several processes: each sends the changes of all, and ends its streams at a stop."""

import signal
from pathlib import Path

import httpx
import pytest

from harness.api_client import event_streams
from harness.server_process import server_process
from tests.support.client import AUTHORIZED
from tests.support.servers import connections, create, reply_on
from tests.support.stream import Stream, following
from tests.system.faults.restartable_server import new_store, restartable_servers

API_KEY = "mk_test_demo"


@pytest.mark.parametrize("path", ["/_mock/events", "/_mock/events?payment_id={}", "/checkout/{}/events"])
def test_a_stop_completes_all_streams(tmp_path: Path, path: str) -> None:
    with server_process(tmp_path) as served:
        with connections(served, 1) as [client]:
            opened = (API_KEY, path.format(create(client).json()["id"]))
        with event_streams(served.url, [opened] * 20) as streams:
            status, output = served.stop(signal.SIGTERM)
            assert status == 0
            assert "defect" not in output
            # A connection that is closed after the grace period has no last chunk.
            assert [reply_on(stream)[-5:] for stream in streams] == [b"0\r\n\r\n"] * 20


@pytest.mark.parametrize(
    "store", [pytest.param("SQLite", marks=pytest.mark.ci), pytest.param("Redis", marks=pytest.mark.redis)]
)
def test_changes_of_one_process_are_sent_by_another(tmp_path: Path, store: str) -> None:
    with (
        new_store(store, tmp_path) as url,
        restartable_servers(tmp_path, [url, url]) as [one, other],
        httpx.Client(base_url=other.url, headers=AUTHORIZED) as client,
        following(f"{one.url}/_mock/events", AUTHORIZED) as notices,
    ):
        notices.next()
        client.put("/_mock/clock", json={"speed": 0})
        payment_id = create(client).json()["id"]
        wait_for_changes(notices, "payments", "requests")
        with following(f"{one.url}/checkout/{payment_id}/events") as checkout:
            assert checkout.next()["view"] == "pay"
            client.post("/_mock/clock/advance", json={"seconds": 5})
            assert checkout.next()["view"] == "detected"
            wait_for_changes(notices, "payments")
            client.post(f"/_mock/payments/{payment_id}/advance", json={"to": "completed"})
            assert checkout.next()["view"] == "complete"
            wait_for_changes(notices, "payments")
            client.delete("/_mock/requests")
            wait_for_changes(notices, "requests")
            client.post("/_mock/reset")
            checkout.wait_for_end()
            wait_for_changes(notices, "payments")


def wait_for_changes(stream: Stream, *names: str) -> None:
    """Return when the stream has sent all of these changes, in any number of events."""
    missing = set(names)
    while missing:
        missing -= set(stream.next()["changed"])
