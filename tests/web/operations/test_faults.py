"""Faults of the header `X-Mock-Fault`, and what the client of each kind of fault sees."""

import json
import re
import socket
import time
from email.utils import parsedate_to_datetime
from http import HTTPStatus
from typing import Any, NamedTuple

import httpx
import pytest

from harness.polling import wait_until
from paymock.web import application
from tests.support import raw
from tests.support.client import Api, order, without_id
from tests.support.contract import Json
from tests.support.server import RunningServer


def test_without_a_key_the_tries_of_a_path_are_counted(api: Api) -> None:
    def read(path: str, **more: str) -> int:
        return api.get(path, headers={"X-Mock-Fault": "status=503; times=1", **more}).status_code

    assert [read("/v1/chains"), read("/v1/chains"), read("/v1/webhooks")] == [503, 200, 503]
    assert read("/v1/webhooks", Authorization="Bearer x") == 401


KEY = "order-1001-payment"


class Case(NamedTuple):
    """A fault, the status that the client sees (None: no reply), and whether the request is carried out."""

    fault: str
    status: int | None
    carried_out: bool

    @property
    def kind(self) -> str:
        return self.fault.partition(";")[0].partition("=")[0]


CASES = [
    Case("status=503", 503, carried_out=False),
    Case("status=429; before", 429, carried_out=False),
    Case("status=599; html", 599, carried_out=False),
    Case("status=200; html", 200, carried_out=False),
    Case("drop; before", None, carried_out=False),
    Case("reset; before", None, carried_out=False),
    Case("status=500; after", 500, carried_out=True),
    Case("status=504; after; html", 504, carried_out=True),
    Case("status=200; after; html", 200, carried_out=True),
    Case("delay=1; before", 201, carried_out=True),
    Case("delay=1; after", 201, carried_out=True),
    Case("drop", None, carried_out=True),
    Case("reset; after", None, carried_out=True),
    Case("extra", 201, carried_out=True),
    Case("extra; after", 201, carried_out=True),
    Case("truncate=0", 201, carried_out=True),
    Case("truncate=9; after", 201, carried_out=True),
    Case("truncate=100000", 201, carried_out=True),
]
FAULTS = {
    "status=429; before",
    "status=504; after; html",
    "delay=1; after",
    "drop",
    "extra",
    "truncate=9; after",
}
ONE_OF_EACH_KIND = [case for case in CASES if case.fault in FAULTS]


def request(api: Api, case: Case, source: str, method: str, path: str, body: Json | None = None) -> bytes:
    """The bytes of a request that gets the fault, of its header or of a rule, and ends the connection."""
    headers = {"Authorization": f"Bearer {api.api_key}"}
    if source == "header":
        headers["X-Mock-Fault"] = case.fault
    else:
        assert api.post("/_mock/faults", json={"fault": case.fault}).status_code == 201
    if case.kind in ("status", "delay", "extra"):
        headers["Connection"] = "close"  # the others end it by themselves
    if body is None:
        return raw.request(method, path, headers)
    headers |= {"Idempotency-Key": KEY, "Content-Type": "application/json"}
    return raw.request(method, path, headers, json.dumps(body).encode())


UNKNOWN = b',"x_mock_unknown":{}'
"""The member that `extra` adds, after others."""


def newest_entry(api: Api) -> Json:
    entry: Json = api.get("/_mock/requests").json()["data"][0]
    return entry


def check_received(received: raw.Received, case: Case) -> None:
    assert received.reset == (case.kind == "reset")
    assert received.status == case.status
    if case.kind == "status":
        assert len(received.body) == received.content_length
        assert (b"retry-after" in received.head) == (case.status in (429, 503))
        if "html" in case.fault:
            phrases = {status.value: f" {status.phrase}" for status in HTTPStatus}
            title = f"{case.status}{phrases.get(case.status or 0, '')}"
            assert f"<h1>{title}</h1>".encode() in received.body
            assert b"\r\ncontent-type: text/html\r\n" in received.head
        else:
            assert json.loads(received.body)["error"]["code"] == "injected_fault"
    elif case.status is None:
        assert received.data == b""


of_each_kind = pytest.mark.parametrize("case", ONE_OF_EACH_KIND, ids=lambda case: case.fault)


@pytest.mark.parametrize("source", ["header", "rule"])
class TestKinds:
    @pytest.mark.parametrize("case", CASES, ids=lambda case: case.fault)
    def test_of_a_creation(self, api: Api, server: RunningServer, case: Case, source: str) -> None:
        received = raw.until_end(server.port, request(api, case, source, "POST", "/v1/payments", order()))
        check_received(received, case)
        created = api.get("/_mock/payments").json()["data"]
        assert len(created) == case.carried_out
        entry = newest_entry(api)
        kept = case.kind in ("delay", "extra")
        expected = {
            "operation": "createPayment",
            "order_id": "order-1001",
            "fault": case.fault,
            "status": case.status or 0,
            "shown": "awaiting_payment" if kept else None,
            "error": "injected_fault" if case.kind == "status" else None,
            "idempotency": "new" if case.carried_out else None,
            "payment_id": created[0]["id"] if created else None,
        }
        assert {name: entry[name] for name in expected} == expected

        retry = api.create(key=KEY)
        assert retry.status_code == 201
        assert ("idempotent-replayed" in retry.headers) == case.carried_out
        assert len(api.get("/_mock/payments").json()["data"]) == 1
        whole = retry.content
        if case.kind == "truncate":
            sent = int(re.findall(r"\d+", case.fault)[0])
            assert received.content_length == len(whole)
            assert received.body == whole[:sent]
        elif kept:
            assert received.body.replace(UNKNOWN, b"") == whole
            assert (UNKNOWN in received.body) == (case.kind == "extra")

    @of_each_kind
    def test_of_a_read(self, api: Api, server: RunningServer, case: Case, source: str) -> None:
        payment = api.created()
        case = case._replace(status=200 if case.status == 201 else case.status)
        received = raw.until_end(
            server.port, request(api, case, source, "GET", f"/v1/payments/{payment['id']}")
        )
        check_received(received, case)
        entry = newest_entry(api)
        shown = "awaiting_payment" if case.kind in ("delay", "extra") else None
        assert (entry["operation"], entry["order_id"]) == ("getPayment", "order-1001")
        assert (entry["payment_id"], entry["shown"], entry["fault"]) == (payment["id"], shown, case.fault)

    @of_each_kind
    def test_of_a_request_for_the_head(
        self, api: Api, server: RunningServer, case: Case, source: str
    ) -> None:
        case = case._replace(status=200 if case.status == 201 else case.status)
        received = raw.until_end(server.port, request(api, case, source, "HEAD", "/v1/chains"))
        assert (received.status, received.body) == (case.status, b"")
        assert received.reset == (case.kind == "reset")
        if case.status is not None:
            assert received.content_length > 100
        assert (newest_entry(api)["fault"], newest_entry(api)["method"]) == (case.fault, "HEAD")

    @of_each_kind
    def test_of_a_refused_request(self, api: Api, server: RunningServer, case: Case, source: str) -> None:
        received = raw.until_end(
            server.port, request(api, case, source, "POST", "/v1/payments", order(order_id=""))
        )
        check_received(received, case._replace(status=422 if case.status == 201 else case.status))
        refused = case.carried_out and case.kind != "status"
        injected = "injected_fault" if case.kind == "status" else None
        assert newest_entry(api)["error"] == ("validation_failed" if refused else injected)
        assert api.get("/_mock/payments").json()["data"] == []


def objects(value: object) -> int:
    """How many JSON objects there are outside of `metadata`."""
    if isinstance(value, list):
        return sum(map(objects, value))
    if not isinstance(value, dict):
        return 0
    return 1 + sum(objects(member) for name, member in value.items() if name != "metadata")


def test_every_object_of_a_reply_gets_an_unknown_member_but_not_those_of_the_client(
    api: Api, server: RunningServer
) -> None:
    metadata = {"a": {"b": [{"c": 0.1}, 1e300, 100.0]}, "x": "é\u2028"}
    payment = api.created("overpaid_review", metadata=metadata)
    api.advance(20)
    api.post("/v1/webhooks", json={"url": "https://shop.example"}, headers={"Idempotency-Key": KEY})
    of_payment = f"/v1/payments/{payment['id']}"
    for path in (of_payment, f"{of_payment}/attempts", "/v1/chains", "/v1/chains/bsc/assets", "/v1/webhooks"):
        whole = api.get(path)
        reply = httpx.get(f"{server.url}{path}", headers={**api.headers, "X-Mock-Fault": "extra"})
        assert reply.content.replace(UNKNOWN, b"") == whole.content
        assert reply.content.count(UNKNOWN) == objects(whole.json()) > 1
        assert reply.content.endswith(UNKNOWN + b"}")
    refused = api.get("/v1/payments/pay_x", headers={"X-Mock-Fault": "extra"})
    assert without_id(refused) == without_id(api.get("/v1/payments/pay_x"))


@pytest.mark.parametrize("part", ["status", "attempt", "deposit", "type"])
def test_a_reply_of_a_later_release_has_one_unknown_value(api: Api, part: str) -> None:
    payment = api.created("overpaid_review")
    api.advance(6)
    path = f"/v1/payments/{payment['id']}"
    whole = api.get(path).json()
    [attempt] = whole["attempts"]
    changed = {"status": whole, "attempt": attempt, "deposit": attempt["deposits"][0]}
    if part == "type":
        del attempt["instructions"]["invoice_address"]
        attempt["instructions"] |= {"type": "x_mock_unknown", "x_mock_unknown": {}}
    else:
        changed[part]["status"] = "x_mock_unknown"
    headers = {"X-Mock-Fault": f"extra={part}"}
    assert httpx.get(f"{api.base_url}{path}", headers={**api.headers, **headers}).json() == whole
    assert newest_entry(api)["shown"] == (None if part == "status" else "payment_detected")
    attempts = httpx.get(f"{api.base_url}{path}/attempts", headers={**api.headers, **headers}).json()
    assert attempts == {"data": [attempt]}
    for other in ("/v1/chains", "/v1/payments/pay_x", "/v1/webhooks"):
        assert without_id(api.get(other, headers=headers)) == without_id(api.get(other))


def test_an_injected_error_has_the_retry_after_that_is_asked_for(api: Api) -> None:
    def retry_after(fault: str) -> Any:
        return api.get("/v1/chains", headers={"X-Mock-Fault": fault}).headers.get("retry-after")

    asked = {"status=429": "1", "status=500": None, "status=500; retry-after=7": "7"}
    asked |= {"status=503; retry-after=0": "0", "status=503; retry-after=none": None}
    assert {fault: retry_after(fault) for fault in asked} == asked
    before = time.time()
    date = parsedate_to_datetime(retry_after("status=429; retry-after=date")).timestamp()
    assert before + 1 <= date <= time.time() + 2


@pytest.mark.parametrize("source", ["header", "rule"])
@pytest.mark.parametrize(
    "case",
    [Case("hang", None, carried_out=True), Case("hang; before", None, carried_out=False)],
    ids=lambda case: case.fault,
)
class TestHang:
    def test_it_ends_when_the_client_leaves(
        self, api: Api, server: RunningServer, case: Case, source: str
    ) -> None:
        data = request(api, case, source, "POST", "/v1/payments", order())
        connections = server.state.connections
        with socket.create_connection(("127.0.0.1", server.port), 30) as client:
            client.sendall(data)
            wait_until(lambda: api.get("/_mock/requests").json()["data"])
            open_connections = len(connections)
            client.settimeout(0)
            with pytest.raises(BlockingIOError):
                client.recv(1)
        wait_until(lambda: len(connections) < open_connections, 30)
        assert (newest_entry(api)["status"], newest_entry(api)["fault"]) == (0, case.fault)
        assert ("idempotent-replayed" in api.create(key=KEY).headers) == case.carried_out

    def test_it_ends_after_a_time(
        self, api: Api, server: RunningServer, case: Case, source: str, monkeypatch: pytest.MonkeyPatch
    ) -> None:
        monkeypatch.setattr(application, "MAX_HANG", 0.01)
        assert raw.until_end(server.port, request(api, case, source, "GET", "/v1/chains")) == raw.Received(
            b""
        )
