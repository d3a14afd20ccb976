"""Journal entries of requests."""

from typing import Any

import msgspec
import pytest
from msgspec.structs import replace

from paymock.app.journal import StoredEntry
from paymock.resources.timelines import RenderedPayment
from paymock.rules.errors import PaymockError
from paymock.rules.faults import parse_fault
from paymock.rules.scenarios import PaymentStatus
from paymock.web.http.error_responses import error_response
from paymock.web.http.requests import Body, Request
from paymock.web.http.responses import REPLAYED, Response
from paymock.web.telemetry.access_log import RequestLog
from paymock.web.telemetry.journal_entry import MAX_DETAILS, entry_for
from tests.support.clock import NOON

PAYMENT = "pay_" + "a" * 40
SHOWN = RenderedPayment(PAYMENT, "order-1001", PaymentStatus.COMPLETED, 45_000, b"{}")
SECRETS = ("own-key", "mk_test_demo", "0x" + "5aAeb6053F" * 4)
LOG = RequestLog(None, secrets=("own-key",))


def entry(response: Response, path: str = "/v1/payments", **params: str) -> StoredEntry:
    headers = {b"authorization": b"Bearer own-key"}
    request = Request("POST", path, headers, Body(b"{}"), params=params)
    return entry_for(request, response, "req_1", NOON, NOON + 60_000, 0.0012345, LOG)


def test_an_entry_says_what_was_requested_and_answered() -> None:
    found = entry(Response(200))
    assert (found.at, found.method, found.path) == ("2030-01-31T12:00:00.000Z", "POST", "/v1/payments")
    assert found.virtual_at == "2030-01-31T12:01:00.000Z"
    assert (found.status, found.request_id, found.duration_ms) == (200, "req_1", 1.234)
    assert (found.error, found.message, found.details, found.idempotency) == (None, None, [], None)


@pytest.mark.parametrize(
    ("response", "idempotency"),
    [
        (Response(201), "new"),
        (Response(201, headers=(REPLAYED,)), "replayed"),
        (error_response(PaymockError("idempotency_key_reused_with_different_payload")), "conflict"),
        (error_response(PaymockError("status_unreachable")), None),
    ],
)
def test_an_entry_says_what_the_idempotency_key_led_to(response: Response, idempotency: Any) -> None:
    assert entry(response).idempotency == idempotency


@pytest.mark.parametrize("secret", SECRETS)
def test_an_entry_holds_no_secrets(secret: str) -> None:
    refusal = PaymockError(
        "validation_failed", f"Do not send {secret}.", details={f"metadata.{secret}": f"is {secret}"}
    )
    found = entry(error_response(refusal), f"/v1/payments/{secret}", payment_id=secret)
    assert secret not in msgspec.json.encode(found).decode()
    assert (found.path, found.message) == ("/v1/payments/***", "Do not send ***.")
    assert found.details[0].field == "metadata.***"


def test_an_entry_holds_the_first_problems_of_a_body() -> None:
    details = {f"field_{number}": "is unknown" for number in range(MAX_DETAILS + 1)}
    found = entry(error_response(PaymockError("validation_failed", details=details)))
    assert [problem.field for problem in found.details] == [*details][:MAX_DETAILS]


def test_a_dropped_reply_has_status_0() -> None:
    found = entry(Response(201, payment=SHOWN, fault=parse_fault("drop")))
    assert (found.status, found.payment_id, found.idempotency) == (0, PAYMENT, "new")


@pytest.mark.parametrize(
    ("fault", "lost", "shown"),
    [
        (None, False, "completed"),
        ("delay=1; after", False, "completed"),
        ("delay=1", True, None),
        ("truncate=9", False, None),
        ("status=503; after", False, None),
    ],
)
def test_an_entry_says_which_status_the_client_has_seen(
    fault: str | None, shown: str | None, *, lost: bool
) -> None:
    found = entry(Response(200, payment=SHOWN, fault=parse_fault(fault or ""), lost=lost))
    assert (found.order_id, found.fault, found.shown) == ("order-1001", fault, shown)
    assert found.shown_offset_seconds == (shown and 45)


def test_a_reply_without_a_body_shows_nothing() -> None:
    request = Request("HEAD", f"/v1/payments/{PAYMENT}", {}, Body(b""), operation="getPayment")
    found = entry_for(request, Response(200, payment=SHOWN), "req_1", NOON, NOON, 0.0, LOG)
    assert (found.operation, found.shown) == ("getPayment", None)


def test_a_replaced_reply_tells_what_was_carried_out() -> None:
    refusal = error_response(PaymockError("injected_fault"))
    carried_out = Response(201, headers=(REPLAYED,), payment=SHOWN)
    found = entry(replace(refusal, fault=parse_fault("status=500; after"), carried_out=carried_out))
    assert (found.status, found.error, found.idempotency) == (500, "injected_fault", "replayed")
    assert (found.payment_id, found.order_id) == (PAYMENT, "order-1001")


def test_a_replaced_refusal_tells_of_a_conflict() -> None:
    conflict = error_response(PaymockError("idempotency_key_reused_with_different_payload"))
    reply = replace(error_response(PaymockError("injected_fault")), carried_out=conflict)
    assert (entry(reply).error, entry(reply).idempotency) == ("injected_fault", "conflict")


def test_the_page_of_a_gateway_has_no_message() -> None:
    page = Response(
        503, b"<html>", "text/html", error="injected_fault", fault=parse_fault("status=503; html")
    )
    assert (entry(page).error, entry(page).message) == ("injected_fault", None)


def test_a_refused_creation_belongs_to_the_order_in_its_body() -> None:
    response = error_response(PaymockError("validation_failed"))

    def order_of(body: Any) -> str | None:
        request = Request("POST", "/v1/payments", {}, Body(b"", decoded=body), operation="createPayment")
        return entry_for(request, response, "req_1", NOON, NOON, 0.0, LOG).order_id

    digest = "0123456789abcdef" * 4
    assert order_of({"order_id": digest}) == digest
    assert order_of({"order_id": "for mk_test_demo"}) == "for ***"
    bodies: list[Any] = [
        {"order_id": "order-7"},
        {"order_id": "own-key"},
        {"order_id": 7},
        {},
        [],
        msgspec.UNSET,
    ]
    assert [order_of(body) for body in bodies] == ["order-7", "***", None, None, None, None]
    assert order_of({"order_id": "x" * 129}) is None


@pytest.mark.parametrize(("payment_id", "expected"), [(PAYMENT, PAYMENT), ("nope", None)])
def test_a_refusal_belongs_to_a_payment_only_if_its_path_has_an_id(
    payment_id: str, expected: str | None
) -> None:
    response = error_response(PaymockError("payment_not_found"))
    assert entry(response, payment_id=payment_id).payment_id == expected
