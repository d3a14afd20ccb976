"""Responses that carry errors. Specification: "Errors"."""

import msgspec
from msgspec.structs import replace

from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.rules.errors import RETRY_AFTER_SECONDS, PaymockError
from paymock.schemas.public import ErrorDetail, ErrorEnvelope, Problem

_MIN_KEY_LENGTH = 9
"""A shorter word may be part of a message by chance, and is not a secret API key."""


def error_response(error: PaymockError) -> Response:
    """Return the response that carries `error` in the error envelope. Specification: "Errors"."""
    details = [Problem(field=field, message=message) for field, message in (error.details or {}).items()]
    body = ErrorDetail(code=error.kind.code, message=error.message)
    if details:
        body.details = details
    headers = error.headers
    if error.status == 503:
        headers = (*headers, ("Retry-After", str(RETRY_AFTER_SECONDS)))
    return Response(
        error.status,
        msgspec.json.encode(ErrorEnvelope(error=body)),
        headers=headers,
        error=error.kind.code,
    )


def refusal(error: PaymockError, request: Request) -> Response:
    """Return the response that refuses `request`. The API key in it is masked: a refusal names unknown
    fields, and a client may send the key as a name.
    """
    response = error_response(error)
    presented = request.headers.get(b"authorization", b"").split(b" ")[-1]
    if len(presented) < _MIN_KEY_LENGTH or presented not in response.body:
        return response
    key, detail = presented.decode("latin-1"), msgspec.json.decode(response.body, type=ErrorEnvelope).error
    detail.message = detail.message.replace(key, "***")
    for problem in detail.details or ():
        problem.field = problem.field.replace(key, "***")
        problem.message = problem.message.replace(key, "***")
    return replace(response, body=msgspec.json.encode(ErrorEnvelope(error=detail)))
