"""The table of errors, and the error that carries one of its rows."""

import pytest

from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.faults import FaultKind
from paymock.rules.scenarios import SCENARIOS

STATUSES = {
    "bad_request": 400,
    "invalid_json": 400,
    "idempotency_key_missing": 400,
    "idempotency_key_invalid": 400,
    "invalid_scenario": 400,
    "invalid_fault": 400,
    "invalid_query": 400,
    "unauthenticated": 401,
    "payment_not_found": 404,
    "chain_not_found": 404,
    "not_found": 404,
    "method_not_allowed": 405,
    "idempotency_key_reused_with_different_payload": 409,
    "status_unreachable": 409,
    "payload_too_large": 413,
    "unsupported_media_type": 415,
    "unsupported_content_encoding": 415,
    "misdirected_request": 421,
    "validation_failed": 422,
    "headers_too_large": 431,
    "injected_fault": 500,
    "internal_error": 500,
    "store_unavailable": 503,
    "capacity_exceeded": 503,
}
"""The status of every documented code. Clients depend on both."""


def test_every_code_has_its_documented_status() -> None:
    assert {code: kind.status for code, kind in ERRORS.items()} == STATUSES


@pytest.mark.parametrize("code", ERRORS)
def test_every_code_has_a_meaning_and_a_remedy_in_whole_sentences(code: str) -> None:
    for text in (ERRORS[code].meaning, ERRORS[code].remedy):
        assert text[0].isupper()
        assert text.endswith(".")


def test_the_table_names_all_kinds_of_faults_and_scenarios_and_what_a_fault_does() -> None:
    assert all(f" {kind}" in ERRORS["invalid_fault"].remedy for kind in FaultKind)
    assert all(name in ERRORS["invalid_scenario"].remedy for name in (*SCENARIOS, "--scenarios"))
    assert "`after`: the request is carried out" in ERRORS["injected_fault"].meaning


def test_without_a_message_an_error_says_what_it_means_and_what_to_do() -> None:
    error = PaymockError("chain_not_found")
    assert str(error) == error.message
    assert error.message == "No supported chain has that identifier. Use an `id` from `GET /v1/chains`."


def test_a_message_and_a_status_replace_those_of_the_table() -> None:
    error = PaymockError("injected_fault", "As requested.", status=418)
    assert (error.kind.code, error.status, error.message) == ("injected_fault", 418, "As requested.")
