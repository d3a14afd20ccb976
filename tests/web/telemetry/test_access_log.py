import json
import os
import re
from contextlib import suppress

import pytest

from paymock.http.parser import parse_head
from paymock.settings import Settings
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.exchange import trace_of
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER
from tests.support.server import running_server

JSON = {**AUTHORIZED, "Content-Type": "application/json", "Idempotency-Key": "order-1001-payment"}
ENDPOINT = b'{"url": "https://merchant.example/hooks"}'
WARNING = "replayed payment follows late_payment, not happy_path"
NOT_DELIVERED = "nothing is delivered by this mock; poll the payment"
TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"


def logged(*requests: bytes, **settings: object) -> list[str]:
    with running_server(Settings(port=0, **settings)) as server:  # type: ignore[arg-type]
        for request in requests:
            raw.exchange(server.port, request)
    return server.log.getvalue().splitlines()


def get(path: str, **headers: str) -> bytes:
    return raw.request("GET", path, {**AUTHORIZED, **headers})


def creation(scenario: str = "happy_path") -> bytes:
    headers = {**JSON, "X-Mock-Scenario": scenario}
    return raw.request("POST", "/v1/payments", headers, json.dumps(dict(ORDER)).encode())


def replays() -> list[bytes]:
    """Creations of a payment, the last with another scenario, and of a webhook endpoint."""
    endpoint = raw.request("POST", "/v1/webhooks", {**JSON, "Idempotency-Key": "endpoint"}, ENDPOINT)
    return [*map(creation, ("late_payment", "late_payment", "happy_path")), endpoint, endpoint]


def test_neither_keys_nor_what_may_be_an_address_or_a_secret_is_shown_however_it_is_encoded() -> None:
    address = ORDER["receive"]["address"]
    encoded = [address.replace("x5", "%785"), address.replace("53", "%35%33", 1), "secret%2Done%2Ebranch"]
    hidden = [
        address,
        address[2:],
        *encoded,
        "secret-two",
        "secret-one.branch.two",
        "m%6B_test_demo",
        "whsec_" + "0" * 64,
    ]
    lines = logged(
        get("/v1/chains", Authorization="Bearer secret-one"),
        get("/v1/chains", Authorization="Bearer wrong-key"),
        *(get(f"/v1/payments/{word}") for word in hidden),
        api_keys=("secret-one", "secret-two", "secret-one.branch"),
    )
    assert len(lines) == 2 + len(hidden)
    shown = re.compile("secret|branch|two|wrong-key|mk_test|whsec_0|5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed")
    assert not [line for line in lines if shown.search(line)]


def test_each_request_is_one_line_of_text() -> None:
    refused, *replayed = logged(get("/v1/payments/pay_x?secret=1"), *replays())
    pattern = r"\d\d:\d\d:\d\d  404  GET   /v1/payments/pay_x  payment_not_found  [\d.]+ ms  req_\w+"
    assert re.fullmatch(pattern, refused)
    notes = [re.sub(r".*?/v1/\w+  (.*?)(  )?[\d.]+ ms  .*", r"\1", line) for line in replayed]
    assert notes == ["", "replayed", WARNING, NOT_DELIVERED, NOT_DELIVERED]


def test_each_request_is_one_line_of_json() -> None:
    lines = logged(*replays(), get("/nowhere"), b"nonsense\r\n\r\n", log="json")
    *created, refused, malformed = entries = [*map(json.loads, lines)]
    assert [(entry["method"], entry["path"], entry["status"]) for entry in (created[0], refused)] == [
        ("POST", "/v1/payments", 201),
        ("GET", "/nowhere", 404),
    ]
    assert (malformed["status"], malformed["error"]) == (400, "bad_request")
    assert all(entry["request_id"].startswith("req_") and entry["duration_ms"] >= 0 for entry in entries)
    usual = {"time", "event", "method", "path", "status", "duration_ms", "request_id"}
    more = [{name: entry[name] for name in entry.keys() - usual} for entry in (*created, refused)]
    replayed, endpoint = {"replayed": True}, {"warning": NOT_DELIVERED}
    assert more == [
        *({}, replayed, {**replayed, "warning": WARNING}),
        *(endpoint, {**replayed, **endpoint}, {"error": "not_found"}),
    ]


def test_the_ids_of_a_trace_are_in_the_json_however_a_request_is_answered() -> None:
    paths = ("/livez", "/nowhere", "/v1/chains")
    traced = [get(path, Traceparent=f"00-{TRACE}-{PARENT}-01") for path in paths]
    lines = [*map(json.loads, logged(*traced, log="json"))]
    assert [line["path"] for line in lines] == [*paths]
    assert {(line["trace_id"], line["parent_id"]) for line in lines} == {(TRACE, PARENT)}


def test_requests_can_be_left_out() -> None:
    assert logged(get("/v1/chains"), access_log=False) == []


def test_a_reader_that_goes_away_does_no_harm() -> None:
    reading, writing = os.pipe()
    os.close(reading)
    with suppress(BrokenPipeError), os.fdopen(writing, "w") as out:  # what is left is lost at the end
        log = RequestLog(out)
        log.line("nobody reads this")
        log.line("nor this")


def test_a_reader_that_does_not_read_does_no_harm_and_is_told_how_much_is_missing() -> None:
    reading, writing = os.pipe()
    os.set_blocking(reading, False)
    with os.fdopen(reading, "rb", buffering=0) as reader, os.fdopen(writing, "w") as out:
        log = RequestLog(out)
        for number in range(2000):
            log.line(f"{number:0100}")  # more than a pipe holds
        kept = (reader.read(1_000_000) or b"").count(b"\n")
        log.line("the last")
        rest = (reader.read(1_000_000) or b"").decode().splitlines()
    assert 0 < kept < 2000
    assert rest == [f"({2000 - kept} lines left out: nobody was reading)", "the last"]


TRACE, PARENT = "4bf92f3577b34da6a3ce929d0e0e4736", "00f067aa0ba902b7"
VALID = f"00-{TRACE}-{PARENT}-01"


def trace(*values: str) -> dict[str, str]:
    """What is found in a request with these values of `traceparent`."""
    lines = [b"GET / HTTP/1.1", *(b"Traceparent: " + value.encode() for value in values)]
    return trace_of(parse_head(b"\r\n".join(lines)))


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
def test_a_trace_has_two_ids(value: str) -> None:
    assert trace(value) == {"trace_id": TRACE, "parent_id": PARENT}


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
def test_anything_else_is_no_trace(value: str) -> None:
    assert trace(value) == {}


def test_a_trace_that_is_named_twice_or_not_at_all_is_none() -> None:
    assert trace(VALID, VALID) == trace() == {}
