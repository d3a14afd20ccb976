"""Server-sent events of whole processes: each tells what all of them do, and ends them in time."""

import signal
import time
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager
from pathlib import Path
from typing import Any

import httpx
import pytest

from harness.polling import wait_until
from harness.redis_engine import DURABLE, redis_server
from harness.server_process import ServerProcess, server_process
from tests.support.client import AUTHORIZED, ORDER, fresh_key
from tests.support.stream import Stream, following

STOP_SECONDS = 2.5
"""Less than the grace of requests in progress: a stop does not wait for streams."""


PathOf = Callable[[str], str]


PATHS: dict[str, PathOf] = {
    "the sandbox": lambda _: "/_mock/events",
    "one payment": lambda payment_id: f"/_mock/events?payment_id={payment_id}",
    "the checkout": lambda payment_id: f"/checkout/{payment_id}/events",
}


@pytest.mark.parametrize("name", PATHS)
@pytest.mark.parametrize("workers", ["1", "2"])
def test_a_stop_ends_all_of_them_in_time_and_with_success(tmp_path: Path, name: str, workers: str) -> None:
    store = ("--store", f"sqlite://{tmp_path}/store.db") if workers == "2" else ()
    with server_process(tmp_path, "--workers", workers, *store) as served, ExitStack() as stack:
        path = PATHS[name](created(served))
        streams = [stack.enter_context(following(served.url + path, AUTHORIZED)) for _ in range(20)]
        for stream in streams:
            stream.next()
        started = time.monotonic()
        status, output = served.stop(signal.SIGTERM)
        assert time.monotonic() - started < STOP_SECONDS
        assert status == 0
        assert "defect" not in output
        for stream in streams:
            stream.wait_for_end()


def created(served: ServerProcess, **options: Any) -> str:
    headers = {**AUTHORIZED, "Idempotency-Key": fresh_key()}
    reply = httpx.post(f"{served.url}/v1/payments", json=dict(ORDER), headers=headers, **options)
    assert reply.status_code == 201
    return str(reply.json()["id"])


@contextmanager
def two_servers(tmp_path: Path, store: str) -> Iterator[tuple[ServerProcess, ServerProcess]]:
    """Two processes on one store, in which the clocks stand still."""
    with ExitStack() as stack:
        url = stack.enter_context(redis_server()).url if store == "redis" else f"sqlite://{tmp_path}/store.db"
        found = []
        for name in ("one", "other"):
            (tmp_path / name).mkdir()
            found.append(stack.enter_context(server_process(tmp_path / name, "--store", url, "--speed", "0")))
        yield found[0], found[1]


@pytest.mark.parametrize("store", ["sqlite", "redis"])
def test_what_one_process_does_is_told_by_another(tmp_path: Path, store: str) -> None:
    with (
        two_servers(tmp_path, store) as (one, other),
        httpx.Client(base_url=other.url, headers=AUTHORIZED) as client,
        following(f"{one.url}/_mock/events", AUTHORIZED) as notices,
    ):
        notices.next()
        payment_id = created(other)
        told_of(notices, "payments", "requests")
        with following(f"{one.url}/checkout/{payment_id}/events") as checkout:
            assert checkout.next()["view"] == "pay"
            client.post("/_mock/clock/advance", json={"seconds": 5})
            assert checkout.next()["view"] == "detected"
            told_of(notices, "payments")
            client.post(f"/_mock/payments/{payment_id}/advance", json={"to": "completed"})
            assert checkout.next()["view"] == "complete"
            told_of(notices, "payments")
            client.delete("/_mock/requests")
            told_of(notices, "requests")
            client.post("/_mock/reset")
            checkout.wait_for_end()
            told_of(notices, "payments")


def told_of(stream: Stream, *wanted: str) -> None:
    """Returns when the stream has told of all of these, at once or one after the other."""
    left = set(wanted)
    while left:
        left -= set(stream.next()["changed"])


def test_a_store_that_is_killed_ends_the_streams_and_one_that_is_back_begins_them_anew(
    tmp_path: Path,
) -> None:
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
            assert [httpx.get(url, headers=AUTHORIZED, timeout=10).status_code for url in urls] == [503, 503]
            engine.restart()
            wait_until(lambda: httpx.get(f"{served.url}/readyz").status_code == 200)
            for url in urls:
                with following(url, AUTHORIZED) as stream:
                    stream.next()
        status, output = served.stop(signal.SIGTERM)
        assert status == 0
        assert "defect" not in output
