"""Responses that carry errors. Specification: "Errors"."""

import msgspec

from paymock.rules.errors import PaymockError
from paymock.schemas.public import ErrorDetail, ErrorEnvelope, Problem
from paymock.web.http.responses import Response

RETRY_AFTER_SECONDS = 1


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
