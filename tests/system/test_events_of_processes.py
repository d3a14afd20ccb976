"""Server-sent events of several processes: each sends the changes of all, and ends its streams at a stop."""

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path

import httpx
import pytest

from harness.api_client import event_streams
from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.server_process import ServerProcess, server_process
from tests.support.client import AUTHORIZED
from tests.support.servers import connections, create, reply_on
from tests.support.stream import Stream, following

API_KEY = "mk_test_demo"


@pytest.mark.parametrize("path", ["/_mock/events", "/_mock/events?payment_id={}", "/checkout/{}/events"])
def test_a_stop_completes_all_streams(tmp_path: Path, path: str) -> None:
    with server_process(tmp_path) as served:
        opened = (API_KEY, path.format(created(served)))
        with event_streams(served.url, [opened] * 20) as streams:
            status, output = served.stop(signal.SIGTERM)
            assert status == 0
            assert "defect" not in output
            # A connection that is closed after the grace period has no last chunk.
            assert [reply_on(stream)[-5:] for stream in streams] == [b"0\r\n\r\n"] * 20


def created(served: ServerProcess) -> str:
    with connections(served, 1) as [client]:
        return str(create(client).json()["id"])


@contextmanager
def two_servers(tmp_path: Path, store: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    with ExitStack() as stack:
        url = stack.enter_context(redis_server()).url if store == "redis" else f"sqlite://{tmp_path}/store.db"
        servers = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            servers.append(
                stack.enter_context(server_process(tmp_path / name, "--store", url, "--speed", "0"))
            )
        yield servers[0], servers[1]


@pytest.mark.parametrize(
    "store", [pytest.param("sqlite", marks=pytest.mark.ci), pytest.param("redis", marks=pytest.mark.redis)]
)
def test_changes_of_one_process_are_sent_by_another(tmp_path: Path, store: str) -> None:
    with (
        two_servers(tmp_path, store) as (one, other),
        httpx.Client(base_url=other.url, headers=AUTHORIZED) as client,
        following(f"{one.url}/_mock/events", AUTHORIZED) as notices,
    ):
        notices.next()
        payment_id = created(other)
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


@pytest.mark.redis
def test_a_killed_store_ends_the_streams_until_it_is_restarted(tmp_path: Path) -> None:
    with (
        redis_server(*DURABLE) as engine,
        server_process(tmp_path, "--store", engine.url, "--speed", "0") as served,
    ):
        payment_id = created(served)
        urls = [f"{served.url}/_mock/events", f"{served.url}/checkout/{payment_id}/events"]
        with ExitStack() as stack:
            streams = [stack.enter_context(following(url, AUTHORIZED)) for url in urls]
            for stream in streams:
                stream.next()
            engine.kill()
            for stream in streams:
                stream.wait_for_end()
            assert [httpx.get(url, headers=AUTHORIZED, timeout=60).status_code for url in urls] == [503, 503]
            engine.restart()
            wait_until(lambda: httpx.get(f"{served.url}/readyz").status_code == 200)
            for url in urls:
                with following(url, AUTHORIZED) as stream:
                    stream.next()
        status, output = served.stop(signal.SIGTERM)
        assert status == 0
        assert "defect" not in output
