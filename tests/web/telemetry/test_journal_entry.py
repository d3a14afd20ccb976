from typing import Any

import msgspec
import pytest

from paymock.app.journal import StoredEntry
from paymock.http.requests import Body, Request
from paymock.http.responses import REPLAYED, Response, error_response
from paymock.payments.records import decode_as
from paymock.payments.timelines import RenderedPayment
from paymock.rules.errors import PaymockError
from paymock.rules.faults import parse_fault
from paymock.rules.scenarios import PaymentStatus
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.exchange import Exchange, OperationResponse, in_place_of
from paymock.web.telemetry.journal_entry import MAX_DETAILS, encoded_entry
from tests.support.clock import NOON

PAYMENT = "pay_" + "a" * 40
SHOWN = RenderedPayment(PAYMENT, "order-1001", PaymentStatus.COMPLETED, 45_000, b"{}")
REPLAY = Response(201, headers=(REPLAYED,))
CONFLICT = error_response(PaymockError("idempotency_key_reused_with_different_payload"))
INJECTED = error_response(PaymockError("injected_fault"))
PAGE = Response(503, b"<html>", "text/html", error="injected_fault")
LOG = RequestLog(None, secrets=("own-key",))


def entry(
    response: Response,
    path: str = "/v1/payments",
    method: str = "POST",
    body: Any = msgspec.UNSET,
    site: str = "",
    **params: str,
) -> StoredEntry:
    headers = {b"authorization": b"Bearer own-key", b"sec-fetch-site": site.encode()}
    request = Request(method, path, headers, body=Body(b"{}"), params=params)
    request.body.decoded = body
    return entry_of(request, response)


def entry_of(request: Request, response: Response) -> StoredEntry:
    exchange = Exchange.of(request, response, "req_1", 0.0012345)
    exchange.answered_at, exchange.virtual_at = NOON, NOON + 60_000
    return decode_as(StoredEntry, encoded_entry(exchange, LOG))


def test_an_entry_says_what_was_requested_and_answered() -> None:
    found = entry(Response(200))
    assert (found.at, found.method, found.path) == ("2030-01-31T12:00:00.000Z", "POST", "/v1/payments")
    assert found.virtual_at == "2030-01-31T12:01:00.000Z"
    assert (found.status, found.request_id, found.duration_ms) == (200, "req_1", 1.234)
    assert (found.error, found.message, found.details, found.idempotency) == (None, None, [], None)


@pytest.mark.parametrize(
    ("response", "status", "error", "idempotency"),
    [
        (Response(201), 201, None, "new"),
        (REPLAY, 201, None, "replayed"),
        (CONFLICT, 409, "idempotency_key_reused_with_different_payload", "conflict"),
        (error_response(PaymockError("status_unreachable")), 409, "status_unreachable", None),
        (OperationResponse(201, payment=SHOWN, fault=parse_fault("drop")), 0, None, "new"),
        (in_place_of(REPLAY, INJECTED, None), 500, "injected_fault", "replayed"),
        (in_place_of(CONFLICT, INJECTED, None), 500, "injected_fault", "conflict"),
        (PAGE, 503, "injected_fault", None),
    ],
)
def test_an_entry_says_what_was_answered_and_what_was_carried_out(
    response: Response, status: int, error: str | None, idempotency: str | None
) -> None:
    found = entry(response)
    assert (found.status, found.error, found.idempotency) == (status, error, idempotency)


@pytest.mark.parametrize(("header", "kept"), [("cross-site", "cross-site"), ("own-key", None), ("", None)])
def test_an_entry_says_from_where_a_browser_has_sent_the_request(header: str, kept: str | None) -> None:
    headers = {b"sec-fetch-site": header.encode()} if header else {}
    assert entry_of(Request("GET", "/v1/chains", headers), Response(200)).fetch_site == kept


def test_the_page_of_a_gateway_has_no_message() -> None:
    assert entry(PAGE).message is None


def test_an_entry_holds_no_secrets() -> None:
    for secret in ("own-key", "mk_test_demo", "0x" + "5aAeb6053F" * 4):
        details = {f"metadata.{secret}": f"is {secret}"}
        refusal = error_response(PaymockError("validation_failed", f"Do not send {secret}.", details=details))
        found = entry(refusal, f"/v1/payments/{secret}", payment_id=secret)
        assert secret not in msgspec.json.encode(found).decode()
        assert (found.path, found.message) == ("/v1/payments/***", "Do not send ***.")
        assert found.details[0].field == "metadata.***"


def test_an_entry_holds_the_first_problems_of_a_body() -> None:
    details = {f"field_{number}": "is unknown" for number in range(MAX_DETAILS + 1)}
    found = entry(error_response(PaymockError("validation_failed", details=details)))
    assert [problem.field for problem in found.details] == [*details][:MAX_DETAILS]


@pytest.mark.parametrize(
    ("method", "fault", "lost", "shown"),
    [
        ("GET", None, False, "completed"),
        ("GET", "delay=1; after", False, "completed"),
        ("GET", "delay=1", True, None),
        ("GET", "hold", False, "completed"),
        ("GET", "extra", False, "completed"),
        ("GET", "truncate=9", False, None),
        ("GET", "status=503; after", False, None),
        ("HEAD", None, False, None),
    ],
)
def test_an_entry_says_which_status_was_seen(
    method: str, fault: str | None, shown: str | None, *, lost: bool
) -> None:
    response = OperationResponse(200, payment=SHOWN, fault=parse_fault(fault or ""), lost=lost)
    found = entry(response, method=method)
    assert (found.payment_id, found.order_id, found.fault) == (PAYMENT, "order-1001", fault)
    assert (found.shown, found.shown_offset_seconds) == (shown, shown and 45)


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
    assert entry(error_response(PaymockError("validation_failed")), body=body).order_id == order_id


@pytest.mark.parametrize(("payment_id", "expected"), [(PAYMENT, PAYMENT), ("nope", None)])
def test_a_refusal_belongs_to_the_payment_of_its_path(payment_id: str, expected: str | None) -> None:
    response = error_response(PaymockError("payment_not_found"))
    assert entry(response, payment_id=payment_id).payment_id == expected
