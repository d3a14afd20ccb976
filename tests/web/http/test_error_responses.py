"""The error envelope."""

import json

import pytest

from paymock.rules.errors import ERRORS, PaymockError
from paymock.web.http.error_responses import error_response


@pytest.mark.parametrize("code", ERRORS)
def test_every_error_has_its_code_and_says_what_to_do(code: str) -> None:
    response = error_response(PaymockError(code))
    kind = ERRORS[code]
    assert (response.status, response.error) == (kind.status, code)
    assert response.content_type == "application/json"
    assert json.loads(response.body) == {
        "error": {"code": code, "message": f"{kind.meaning} {kind.remedy}"},
    }


def test_details_name_the_fields_in_their_order() -> None:
    details = {"receive.chain": "is missing", "amount": "must be a string"}
    error = json.loads(error_response(PaymockError("validation_failed", details=details)).body)["error"]
    assert error["details"] == [
        {"field": "receive.chain", "message": "is missing"},
        {"field": "amount", "message": "must be a string"},
    ]


@pytest.mark.parametrize(
    "error", [PaymockError("store_unavailable"), PaymockError("injected_fault", status=503)]
)
def test_every_503_says_when_to_retry(error: PaymockError) -> None:
    assert error_response(error).headers == (("Retry-After", "1"),)


def test_other_errors_have_only_their_own_headers() -> None:
    error = PaymockError("method_not_allowed", headers=[("Allow", "GET")])
    assert error_response(error).headers == (("Allow", "GET"),)
    assert error_response(PaymockError("not_found")).headers == ()
