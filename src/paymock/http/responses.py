"""Responses: JSON, errors in their envelope; and their header lines."""

import gzip
from functools import cache, lru_cache, partial
from http import HTTPStatus

import msgspec
from msgspec.structs import replace

from paymock.http.requests import Request
from paymock.rules.errors import PaymockError
from paymock.rules.faults import Fault
from paymock.schemas.public import ErrorDetail, ErrorEnvelope, Problem

JSON = "application/json"
TEXT = "text/plain; charset=utf-8"

REPLAYED = ("Idempotent-Replayed", "true")
"""The header of a response to a repeated request."""

WARNING = "X-Mock-Warning"
"""The name of the header that tells of a part of the request that was ignored."""

_MIN_KEY_LENGTH = 9
"""A shorter word may be part of a message by chance, and is not a secret API key."""

PHRASES = {status.value: status.phrase for status in HTTPStatus}
"""The reason phrases of the statuses that have one."""

VARY = ("Vary", "Accept-Encoding")
_NO_STORE = b"cache-control: no-store\r\n"


class Response(msgspec.Struct, frozen=True):
    """What is sent to the client. `error` is the code of a refusal, and `differs` are the paths of a
    conflict. `fault` was injected, and says what of the response is sent; nothing is if it is `lost`: the
    client has left.
    """

    status: int
    body: bytes = b""
    content_type: str | None = JSON
    headers: tuple[tuple[str, str], ...] = ()
    error: str | None = None
    differs: tuple[str, ...] = ()
    fault: Fault | None = None
    lost: bool = False

    @property
    def dropped(self) -> bool:
        return self.lost or (self.fault is not None and self.fault.loses_reply)


def with_warning(response: Response, text: str) -> Response:
    warnings = [value for name, value in response.headers if name == WARNING]
    others = [header for header in response.headers if header[0] != WARNING]
    return replace(response, headers=(*others, (WARNING, "; ".join([*warnings, text]))))


def header_block(response: Response, request_id: str, more: bytes = b"") -> bytes:
    """Return the header lines of a response, in the order in which they are sent, with `more` at the end.
    Each ends with CRLF.
    """
    has_length = response.status not in (204, 304)
    own = b""
    if response.headers:
        own = "".join([f"{name.lower()}: {value}\r\n" for name, value in response.headers]).encode("latin-1")
    return b"x-request-id: %b\r\nx-content-type-options: nosniff\r\n%b%b%b%b%b" % (
        request_id.encode(),
        b"content-length: %d\r\n" % len(response.body) if has_length else b"",
        _content_type(response.content_type),
        own,
        b"" if own.find(b"cache-control: ") >= 0 else _NO_STORE,
        more,
    )


@cache  # there are few types
def _content_type(value: str | None) -> bytes:
    return b"" if value is None else f"content-type: {value}\r\n".encode("latin-1")


_gzipped = lru_cache(maxsize=64)(partial(gzip.compress, compresslevel=6, mtime=0))  # more takes twice as long


def compressible(
    request: Request, body: bytes, content_type: str, headers: tuple[tuple[str, str], ...]
) -> Response:
    """Return a response that is compressed if `Accept-Encoding` is a list of codings, as browsers send it,
    with gzip. The compressed body is kept for later requests.
    """
    headers = (*headers, VARY)
    codings = request.headers.get(b"accept-encoding", b"").lower().split(b",")
    if b"gzip" in [coding.strip() for coding in codings]:
        body, headers = _gzipped(body), (*headers, ("Content-Encoding", "gzip"))
    return Response(200, body, content_type, headers)


def error_response(error: PaymockError, request_id: str, key: str = "") -> Response:
    """Return the response that carries `error` in the error envelope, without the API `key`. Specification:
    "Errors".
    """

    def masked(text: str) -> str:
        return text.replace(key, "***") if key else text

    problems = (error.details or {}).items()
    details = [Problem(field=masked(field), message=masked(message)) for field, message in problems]
    body = ErrorDetail(code=error.kind.code, message=masked(error.message), request_id=request_id)
    if details:
        body.details = details
    headers = error.headers
    if error.retry_after:
        headers = (*headers, ("Retry-After", error.retry_after))
    content = msgspec.json.encode(ErrorEnvelope(error=body))
    return Response(error.status, content, headers=headers, error=error.kind.code, differs=error.differs)


def refusal(error: PaymockError, request: Request) -> Response:
    """Return the response that refuses `request`. The API key in it is masked: a refusal names unknown
    fields, and a client may send the key as a name; but 401 names none.
    """
    key = request.headers.get(b"authorization", b"").split(b" ")[-1].decode("latin-1")
    is_masked = error.status != 401 and len(key) >= _MIN_KEY_LENGTH
    return error_response(error, request.id, key if is_masked else "")
