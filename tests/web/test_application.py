"""The ASGI application, without a server."""

import io
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

import pytest

from paymock.app.catalog_file import load_catalog
from paymock.app.sandboxes import new_metadata
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from paymock.web.app import create_app
from paymock.web.application import Application
from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import Route
from paymock.web.telemetry.access_log import RequestLog
from tests.support.clock import NOON, ManualClock
from tests.support.virtual_time import run

KEY = "mk_test_application"


class Reply(NamedTuple):
    status: int
    headers: dict[str, str]
    body: bytes

    @property
    def error(self) -> Any:
        return json.loads(self.body)["error"]


@pytest.fixture
def log() -> io.StringIO:
    return io.StringIO()


@pytest.fixture
def app(log: io.StringIO) -> Application:
    metadata = new_metadata(NOON, 1, "tests")
    return create_app(Settings(), load_catalog(None), MemoryStore(), metadata, ManualClock(), RequestLog(log))


def call(
    app: Application, path: str, method: str = "GET", headers: Mapping[str, str] = {}, body: bytes = b""
) -> Reply:
    """Send one request by ASGI."""
    lines = {"host": "localhost", "authorization": f"Bearer {KEY}", **headers}
    sent: list[Mapping[str, Any]] = []

    async def receive() -> Mapping[str, Any]:
        return {"type": "http.request", "body": body}

    async def send(message: Mapping[str, Any]) -> None:
        sent.append(message)

    scope = {
        "type": "http",
        "method": method,
        "raw_path": path.encode(),
        "query_string": b"",
        "headers": [(name.encode(), value.encode()) for name, value in lines.items()],
    }
    run(app(scope, receive, send))
    start, *parts = sent
    reply_headers = {name.decode(): value.decode() for name, value in start["headers"]}
    return Reply(start["status"], reply_headers, b"".join(part["body"] for part in parts))


@pytest.mark.parametrize("path", ["/livez", "/v1/chains", "/nowhere"])
def test_head_has_the_headers_of_get_and_no_body(app: Application, path: str) -> None:
    get, head = call(app, path), call(app, path, "HEAD")
    assert (head.status, head.body) == (get.status, b"")
    assert head.headers["content-length"] == str(len(get.body))
    assert head.headers.keys() == get.headers.keys()


@pytest.mark.parametrize(
    ("path", "method", "headers", "status", "code"),
    [
        ("/nowhere", "GET", {"host": "attacker.example", "authorization": ""}, 421, "misdirected_request"),
        ("/nowhere", "GET", {"authorization": ""}, 404, "not_found"),
        ("/v1/chains", "POST", {"authorization": ""}, 405, "method_not_allowed"),
        ("/v1/chains", "GET", {"authorization": ""}, 401, "unauthenticated"),
    ],
)
def test_host_path_method_and_key_are_checked_in_this_order(
    app: Application, path: str, method: str, headers: dict[str, str], status: int, code: str
) -> None:
    reply = call(app, path, method, headers)
    assert (reply.status, reply.error["code"]) == (status, code)


def test_a_method_that_a_path_does_not_have_is_refused_with_those_it_has(app: Application) -> None:
    reply = call(app, "/v1/chains", "DELETE")
    assert reply.headers["allow"] in reply.error["message"]
    assert "GET" in reply.headers["allow"]


def test_an_unexpected_error_is_logged_and_its_message_is_not_sent(
    app: Application, log: io.StringIO
) -> None:
    async def fail(request: Request) -> Response:
        raise RuntimeError("the password is 1234")

    app.routes.add("GET", "/fails", Route(fail))
    reply = call(app, "/fails")
    assert (reply.status, reply.error["code"]) == (500, "internal_error")
    assert b"1234" not in reply.body
    assert "RuntimeError" in log.getvalue()
    assert reply.headers["x-request-id"] in log.getvalue()


def test_the_api_key_is_masked_in_a_refusal_that_repeats_it(app: Application) -> None:
    headers = {"content-type": "application/json", "idempotency-key": "order-1001"}
    reply = call(app, "/v1/payments", "POST", headers, json.dumps({KEY: 1}).encode())
    assert (reply.status, reply.error["code"]) == (422, "validation_failed")
    assert KEY.encode() not in reply.body
    assert "***" in [problem["field"] for problem in reply.error["details"]]


def test_other_protocols_than_http_are_not_supported(app: Application) -> None:
    with pytest.raises(RuntimeError, match="websocket"):
        run(app({"type": "websocket"}, None, None))
