"""The JSON log says which trace a request belongs to, where its client says so: W3C Trace Context."""

import json
from collections.abc import Iterator
from typing import Any

import pytest

from harness.polling import wait_until
from paymock.settings import Settings
from tests.support import raw
from tests.support.server import RunningServer, running_server

TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


@pytest.fixture(scope="module")
def logging() -> Iterator[RunningServer]:
    with running_server(Settings(port=0, log="json")) as server:
        yield server


def logged(server: RunningServer, *values: str, path: str = "/livez") -> dict[str, Any]:
    """The line of the log about a request with these values of `traceparent`."""
    lines = ["GET " + path + " HTTP/1.1", "Host: 127.0.0.1", *(f"traceparent: {value}" for value in values)]
    [reply] = raw.exchange(server.port, "\r\n".join([*lines, "", ""]).encode("latin-1"))
    mine = f'"request_id":"{reply.headers["x-request-id"]}"'
    wait_until(lambda: mine in server.log.getvalue())  # the reply comes before its line
    [line] = [line for line in server.log.getvalue().splitlines() if mine in line]
    fields: dict[str, Any] = json.loads(line)
    return fields


@pytest.mark.parametrize(
    "value",
    [
        VALID,
        f"00-{TRACE}-{PARENT}-00",
        f"  {VALID}\t",
        f"cc-{TRACE}-{PARENT}-01",
        f"cc-{TRACE}-{PARENT}-01-what-the-future-will-be-like",
    ],
)
def test_the_ids_of_a_trace_are_logged(logging: RunningServer, value: str) -> None:
    for path in ("/livez", "/nowhere", "/v1/chains"):
        line = logged(logging, value, path=path)
        assert (line["path"], line["trace_id"], line["parent_id"]) == (path, TRACE, PARENT)


@pytest.mark.parametrize(
    "value",
    [
        "",
        "00",
        f"ff-{TRACE}-{PARENT}-01",
        f"0-{TRACE}-{PARENT}-01",
        f"0g-{TRACE}-{PARENT}-01",
        f"00-{TRACE[1:]}-{PARENT}-01",
        f"00-{TRACE}0-{PARENT}-01",
        f"00-{TRACE.upper()}-{PARENT}-01",
        f"00-{'0' * 32}-{PARENT}-01",
        f"00-{TRACE}-{'0' * 16}-01",
        f"00-{TRACE}-{PARENT[1:]}-01",
        f"00-{TRACE}-{PARENT}-1",
        f"00-{TRACE}-{PARENT}-0x",
        f"00-{TRACE}-{PARENT}",
        f"00-{TRACE}-{PARENT}-01-more",
        f"00-{TRACE}-{PARENT}-01-",
        f"cc-{TRACE}-{PARENT}-01.more",
        f"00-{TRACE}-{PARENT}-01, {VALID}",
        f"00_{TRACE}_{PARENT}_01",
        f"00-mk_test_{TRACE[8:]}-{PARENT}-01",
    ],
)
def test_what_is_no_trace_is_not_logged(logging: RunningServer, value: str) -> None:
    line = logged(logging, value)
    assert line["status"] == 200
    assert "trace_id" not in line
    assert "parent_id" not in line


def test_a_trace_that_is_named_twice_is_none(logging: RunningServer) -> None:
    assert "trace_id" not in logged(logging, VALID, VALID)


def test_a_request_without_a_trace_is_logged_without_one(logging: RunningServer) -> None:
    assert set(logged(logging)) == {
        "time", "event", "method", "path", "status", "duration_ms", "request_id",
    }  # fmt: skip
