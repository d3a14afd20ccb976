import io
import json
import os
import re
from contextlib import suppress
from typing import Any

import msgspec
import pytest

from paymock.app.journal import StoredEntry
from paymock.http.parser import parse_head
from paymock.http.requests import Body, Request
from paymock.http.responses import REPLAYED, Response, error_response
from paymock.payments.records import decode_as
from paymock.payments.timelines import RenderedPayment
from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import PaymentStatus
from paymock.settings import Settings
from paymock.stores.memory import MemoryStore
from paymock.web.responses import OperationResponse, in_place_of
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.exchange import Exchange
from paymock.web.telemetry.journal_entry import MAX_DETAILS, encoded_entry
from tests.support import raw
from tests.support.client import AUTHORIZED, ORDER
from tests.support.clock import NOON
from tests.support.server import running_server
from tests.support.use_cases import UseCases

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
    encoded = [address.replace("x5", "%785"), address.replace("53", "%35%33", 1), "secret%2Done%2Dbranch"]
    hidden = [
        address,
        address[2:],
        *encoded,
        "secret-two",
        "secret-one-branch.two",
        "m%6B_test_demo",
        "whsec_" + "0" * 64,
    ]
    headers = ("secret-two", "mk_test_demo", address)  # which a warning names in another case
    lines = logged(
        get("/v1/chains", Authorization="Bearer secret-one"),
        get("/v1/chains", Authorization="Bearer wrong-key"),
        *(get(f"/v1/payments/{word}") for word in hidden),
        *(get("/livez", **{f"X-Mock-{name}": "1"}) for name in headers),
        api_keys=("secret-one", "secret-two", "secret-one-branch"),
    )
    assert len(lines) == 2 + len(hidden) + len(headers)
    words = "secret|branch|two|wrong-key|mk_test|whsec_0|5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
    shown = re.compile(words, re.I)
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


def test_each_reason_why_the_store_cannot_be_used_is_told_once_a_minute() -> None:
    out = io.StringIO()
    log = RequestLog(out)
    for text in ("it is locked", "the clock is 70 s ahead", "it is locked", "the clock is 71 s ahead"):
        log.store_failure(text)
    assert out.getvalue().splitlines() == ["Warning: it is locked", "Warning: the clock is 70 s ahead"]


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


VALID = f"00-{TRACE}-{PARENT}-01"


LATER = f"cc{VALID[2:]}"
TRACES = [(VALID,), (f"{VALID[:-2]}00",), (f"  {VALID}\t",), (LATER,), (f"{LATER}-what-comes-later",)]


@pytest.mark.parametrize(
    "values",
    [
        *TRACES,
        *(
            (value,)
            for value in ("", "00", VALID[:-3], f"{VALID}-more", f"{VALID}-", VALID.replace("-", "_"))
        ),
        *((f"{version}{VALID[2:]}",) for version in ("ff", "0", "0g")),
        *((f"{VALID[:-2]}{flags}",) for flags in ("1", "0x", f"01, {VALID}")),
        *((VALID.replace(TRACE, wrong),) for wrong in (TRACE[1:], f"{TRACE}0", TRACE.upper(), "0" * 32)),
        *((VALID.replace(PARENT, wrong),) for wrong in ("0" * 16, PARENT[1:])),
        (f"{LATER}.more",),
        (f"00-mk_test_{TRACE[8:]}-{PARENT}-01",),
        (VALID, VALID),
        (),
    ],
)
def test_a_trace_has_two_ids_and_anything_else_is_none(values: tuple[str, ...]) -> None:
    lines = [b"GET / HTTP/1.1", *(b"Traceparent: " + value.encode() for value in values)]
    expected = {"trace_id": TRACE, "parent_id": PARENT} if values in TRACES else {}
    request = parse_head(b"\r\n".join(lines))
    assert Exchange.of(request, Response(200), "req_1", 0.0).trace == expected


PAYMENT = "pay_" + "a" * 40
SHOWN = RenderedPayment(PAYMENT, "order-1001", PaymentStatus.COMPLETED, 45_000, b"{}")
REPLAY = Response(201, headers=(REPLAYED,))
CONFLICT = error_response(PaymockError("idempotency_key_reused_with_different_payload"), "req_1")
INJECTED = error_response(PaymockError("injected_fault"), "req_1")
PAGE_OF_A_GATEWAY = Response(503, b"<html>", "text/html", error="injected_fault")
JOURNAL = UseCases(MemoryStore()).control.journal
LOG = RequestLog(None, secrets=("own-key",))


def entry(response: Response, method: str = "POST", body: Any = msgspec.UNSET, **params: str) -> StoredEntry:
    request = Request(method, "/v1/payments", {}, body=Body(b"{}"), params=params)
    request.body.decoded = body
    return entry_of(request, response)


def entry_of(request: Request, response: Response) -> StoredEntry:
    exchange = Exchange.of(request, response, "req_1", 0.0012345)
    exchange.answered_at, exchange.clock = NOON, ClockSetting(NOON, NOON + 60_000, 1.0)
    return decode_as(StoredEntry, encoded_entry(exchange, LOG, JOURNAL, ""))


def test_an_entry_says_what_was_requested_and_answered() -> None:
    found = entry(Response(200))
    assert (found.at, found.method, found.path) == ("2030-01-31T12:00:00.000Z", "POST", "/v1/payments")
    assert found.virtual_at == "2030-01-31T12:01:00.000Z"
    assert (found.status, found.request_id, found.duration_ms) == (200, "req_1", 1.234)
    assert (found.error, found.message, found.details, found.idempotency) == (None, None, [], None)


@pytest.mark.parametrize(
    ("response", "status", "error", "idempotency"),
    [
        (error_response(PaymockError("status_unreachable"), "req_1"), 409, "status_unreachable", None),
        (in_place_of(REPLAY, INJECTED, None), 500, "injected_fault", "replayed"),
        (in_place_of(CONFLICT, INJECTED, None), 500, "injected_fault", "conflict"),
        (PAGE_OF_A_GATEWAY, 503, "injected_fault", None),
    ],
)
def test_an_entry_says_what_was_answered_and_what_was_carried_out(
    response: Response, status: int, error: str | None, idempotency: str | None
) -> None:
    found = entry(response)
    assert (found.status, found.error, found.idempotency) == (status, error, idempotency)
    assert response is not PAGE_OF_A_GATEWAY or found.message is None


@pytest.mark.parametrize(("header", "kept"), [("cross-site", "cross-site"), ("own-key", None), ("", None)])
def test_an_entry_says_from_where_a_browser_has_sent_the_request(header: str, kept: str | None) -> None:
    headers = {b"sec-fetch-site": header.encode()} if header else {}
    assert entry_of(Request("GET", "/v1/chains", headers), Response(200)).fetch_site == kept


def test_an_entry_holds_the_first_problems_of_a_body() -> None:
    details = {f"field_{number}": "is unknown" for number in range(MAX_DETAILS + 1)}
    found = entry(error_response(PaymockError("validation_failed", details=details), "req_1"))
    assert [problem.field for problem in found.details] == [*details][:MAX_DETAILS]


@pytest.mark.parametrize(("method", "lost"), [("GET", False), ("GET", True), ("HEAD", False)])
def test_an_entry_says_which_status_was_seen(method: str, *, lost: bool) -> None:
    found = entry(OperationResponse(200, payment=SHOWN, lost=lost), method)
    seen = ("completed", 45) if method == "GET" and not lost else (None, None)
    assert (found.payment_id, found.order_id) == (PAYMENT, "order-1001")
    assert (found.shown, found.shown_offset_seconds) == seen


@pytest.mark.parametrize(
    ("body", "order_id"),
    [
        ({"order_id": "0123456789abcdef" * 4}, "0123456789abcdef" * 4),
        ({"order_id": "for mk_test_demo"}, "for ***"),
        ({"order_id": "own-key"}, "***"),
        ({"order_id": 7}, None),
        ({"order_id": "x" * 129}, None),
        ({}, None),
        ([], None),
        (msgspec.UNSET, None),
    ],
)
def test_a_refused_creation_belongs_to_the_order_in_its_body(body: Any, order_id: str | None) -> None:
    assert entry(error_response(PaymockError("validation_failed"), "req_1"), body=body).order_id == order_id


@pytest.mark.parametrize(("payment_id", "expected"), [(PAYMENT, PAYMENT), ("nope", None)])
def test_a_refusal_belongs_to_the_payment_of_its_path(payment_id: str, expected: str | None) -> None:
    response = error_response(PaymockError("payment_not_found"), "req_1")
    assert entry(response, payment_id=payment_id).payment_id == expected
