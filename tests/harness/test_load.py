"""The requests that wrk sends, as a server gets them."""

import json
import re
import threading
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import NamedTuple

import pytest

from harness.load import Load, Payment, create_load, order, read_load, replay_load, run_wrk

pytestmark = pytest.mark.wrk

PAYMENTS = [Payment(f"pay_{n}", f"key-{n}", f"order-{n}", f"{n}000") for n in range(10, 60)]


class Request(NamedTuple):
    """A request as the server has read it; names of headers are in lower case."""

    method: str
    path: str
    headers: dict[str, str]
    body: str


def requests_of(load: Load) -> list[Request]:
    """What a server gets from wrk within a second. What follows a body that is longer than it says is refused
    as no request, and a shorter one has no reply.
    """
    requests: list[Request] = []

    class Handler(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"

        def reply(self) -> None:
            body = self.rfile.read(int(self.headers.get("Content-Length", "0"))).decode()
            headers = {name.lower(): value for name, value in self.headers.items()}
            requests.append(Request(self.command, self.path, headers, body))
            self.wfile.write(b"HTTP/1.1 204 No Content\r\n\r\n")

        do_GET = do_POST = reply  # noqa: N815 - the names of the base class

        def log_message(self, *_: object) -> None:
            """Log nothing."""

    with ThreadingHTTPServer(("127.0.0.1", 0), Handler) as server:
        thread = threading.Thread(target=server.serve_forever)
        thread.start()
        try:
            report = run_wrk(f"http://127.0.0.1:{server.server_port}", 1, load)
        finally:
            server.shutdown()
            thread.join()
    assert (report.refused, report.broken) == (0, 0)
    assert len(requests) >= report.requests > 0
    return requests


def assert_varied(requests: list[Request]) -> None:
    """No two requests have the same `traceparent`, and not all have the same order of headers."""
    traces = {request.headers["traceparent"] for request in requests}
    assert len(traces) == len(requests)
    assert all(re.fullmatch("00-[0-9a-f]{32}-[0-9a-f]{16}-01", trace) for trace in traces)
    assert len({tuple(request.headers) for request in requests}) > 1


def test_no_two_creations_are_alike() -> None:
    requests = requests_of(create_load())
    assert_varied(requests)
    assert {(request.method, request.path) for request in requests} == {("POST", "/v1/payments")}
    assert len({request.headers["idempotency-key"] for request in requests}) == len(requests)
    orders = [json.loads(request.body) for request in requests]
    assert len({one["order_id"] for one in orders}) == len(requests)
    assert len({one["receive"]["amount"] for one in orders}) > 1
    assert [request.body for request in requests] == [
        order(one["order_id"], one["receive"]["amount"]) for one in orders
    ]


def test_replays_repeat_key_and_body_and_nothing_else() -> None:
    requests = requests_of(replay_load(PAYMENTS))
    assert_varied(requests)
    bodies = {payment.idempotency_key: order(payment.order_id, payment.amount) for payment in PAYMENTS}
    sent = {(request.headers["idempotency-key"], request.body) for request in requests}
    assert len(sent) > 1
    assert sent <= bodies.items()


def test_no_two_reads_are_alike() -> None:
    requests = requests_of(read_load(PAYMENTS, "/v1/payments/<id>/attempts"))
    assert_varied(requests)
    paths = {request.path for request in requests}
    assert len(paths) > 1
    assert paths <= {f"/v1/payments/{payment.id}/attempts" for payment in PAYMENTS}
    assert {(request.method, request.body) for request in requests} == {("GET", "")}


@pytest.mark.parametrize(
    "load", [replay_load(PAYMENTS[:1], varied=False), read_load(PAYMENTS[:1], varied=False)]
)
def test_identical_requests_do_not_differ(load: Load) -> None:
    first, *others = requests_of(load)
    assert all(request == first for request in others)


def test_identical_creations_differ_in_their_keys() -> None:
    requests = requests_of(create_load(varied=False))
    keys = {request.headers.pop("idempotency-key") for request in requests}
    assert len(keys) == len(requests)
    assert all(request == requests[0] for request in requests)
