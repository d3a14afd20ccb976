"""Every error that a client can receive, as one table: the code, the status, the meaning and the remedy.

The HTTP layer, the OpenAPI documents and the documentation read this table. A new error is a new row.
Specification: "Errors"; the codes beyond it are explained in docs/decisions.md.
"""

from collections.abc import Iterable, Mapping
from typing import NamedTuple

from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS

RETRY_AFTER_SECONDS = 1
"""The `Retry-After` of every 503, and of an injected 429."""


class ErrorKind(NamedTuple):
    """One row of the error table. `status` is an HTTP status. `expected`: the application of a merchant can
    meet it in any sandbox, without a defect of its own; so its tests should show that it copes.
    """

    code: str
    status: int
    meaning: str
    remedy: str
    expected: bool = False


_ROWS = (
    ErrorKind(
        "bad_request",
        400,
        "The request is not well-formed HTTP, or does not carry exactly one valid Host header.",
        "Send HTTP/1.1 with one Host header; a client library does both.",
    ),
    ErrorKind(
        "invalid_json",
        400,
        "The body is not one JSON document in UTF-8. Duplicate member names, NaN, Infinity, numbers "
        "outside the range of a double, lone surrogates, a byte order mark and nesting deeper than 32 are "
        "refused too.",
        "Send the output of a JSON encoder, once, as UTF-8.",
    ),
    ErrorKind(
        "idempotency_key_missing",
        400,
        "A state-changing request needs an Idempotency-Key, and this one has none, or an empty one.",
        "Send one key per business operation, and the same key again when you retry it.",
    ),
    ErrorKind(
        "idempotency_key_invalid",
        400,
        "The Idempotency-Key is not 8 to 128 visible ASCII characters, or was sent twice.",
        "A UUID is a good key.",
    ),
    ErrorKind(
        "invalid_scenario",
        400,
        "X-Mock-Scenario is not the name of a scenario of this server, or was sent twice.",
        f"Use {', '.join(SCENARIOS)} or a name in the file of `--scenarios`; leave the header out for "
        f"{DEFAULT_SCENARIO}.",
    ),
    ErrorKind(
        "invalid_fault",
        400,
        "X-Mock-Fault is not a fault, or was sent twice; or a fault is for rules only.",
        "The forms of a fault are listed with `POST /_mock/faults` in `/_mock/openapi.yaml`.",
    ),
    ErrorKind(
        "invalid_query",
        400,
        "A parameter of the query is unknown, repeated or has a value that is not acceptable.",
        "The parameters are listed in `/_mock/openapi.yaml`.",
    ),
    ErrorKind(
        "unauthenticated",
        401,
        "The Authorization header is missing, malformed, or names a key that this server does not accept.",
        "Send `Authorization: Bearer <API_KEY>`. In open mode any key `mk_test_NAME` is accepted.",
    ),
    ErrorKind(
        "payment_not_found",
        404,
        "This API key has no payment with that id. Payments of other keys are invisible.",
        "Use the `id` of the create response, with the API key that created it.",
        expected=True,
    ),
    ErrorKind(
        "chain_not_found",
        404,
        "No supported chain has that identifier.",
        "Use an `id` from `GET /v1/chains`.",
        expected=True,
    ),
    ErrorKind(
        "not_found",
        404,
        "There is nothing at this path.",
        "Start at `/llms.txt`; the paths are listed in `/openapi.yaml` and `/swagger/`.",
    ),
    ErrorKind(
        "method_not_allowed",
        405,
        "The path exists, but does not support this method.",
        "The `Allow` header lists the methods of this path.",
    ),
    ErrorKind(
        "idempotency_key_reused_with_different_payload",
        409,
        "This Idempotency-Key was already used with a different request body or on another endpoint.",
        "Repeat the original body to retry; use a new key for a new operation only.",
    ),
    ErrorKind(
        "status_unreachable",
        409,
        "The payment cannot reach that status, or cannot any more.",
        "Read the payment's timeline at `GET /_mock/payments/{id}`.",
    ),
    ErrorKind(
        "sandbox_not_empty",
        409,
        "A clock can be set only while its sandbox has no payments and no webhook endpoints.",
        "Reset the sandbox, or use another: `KEY.NAME`, or in open mode another `mk_test_NAME`.",
    ),
    ErrorKind(
        "payload_too_large",
        413,
        "The body is larger than 64 KiB.",
        "Send less; `metadata` is limited to 16 KiB.",
    ),
    ErrorKind(
        "unsupported_media_type",
        415,
        "The Content-Type is not application/json in UTF-8.",
        "Send `Content-Type: application/json`.",
    ),
    ErrorKind(
        "unsupported_content_encoding",
        415,
        "The body is compressed.",
        "Send the body as it is, without Content-Encoding.",
    ),
    ErrorKind(
        "misdirected_request",
        421,
        "The Host header names a host that this server does not answer to, which protects a server on "
        "loopback from DNS rebinding.",
        "Use localhost, 127.0.0.1 or [::1], or start the server with `--allowed-host`.",
    ),
    ErrorKind(
        "validation_failed",
        422,
        "The body is well-formed JSON, but one or more values are not acceptable. `details` lists every "
        "problem.",
        "Fix each field that `details` names.",
        expected=True,
    ),
    ErrorKind(
        "headers_too_large",
        431,
        "The request head is larger than 16 KiB or has more than 100 header lines.",
        "Send fewer or shorter headers.",
    ),
    ErrorKind(
        "injected_fault",
        500,
        "An injected fault, with the requested status.",
        "Retry as your client should.",
        expected=True,
    ),
    ErrorKind(
        "internal_error",
        500,
        "A defect in the mock. The server's log has the details under the same request id.",
        "Report it, with the steps that lead to it.",
    ),
    ErrorKind(
        "store_unavailable",
        503,
        "The store cannot be reached. Nothing was half-written.",
        "Retry with the same Idempotency-Key after `Retry-After` seconds.",
    ),
    ErrorKind(
        "capacity_exceeded",
        503,
        "A limit on stored resources, or on requests that wait, is reached. Nothing was half-written.",
        "Reset a sandbox that is no longer needed, or start the server with more room: `--max-payments`. End "
        "waits that are no longer needed, or allow the process more open files.",
    ),
)

ERRORS: Mapping[str, ErrorKind] = {row.code: row for row in _ROWS}


class PaymockError(Exception):
    """An error to send to the client.

    `code` is a key of `ERRORS`. `message` replaces the meaning and remedy of the table. `details` maps dotted
    field paths to problems. `differs` are the paths of a conflict. `headers` are added to the response.
    `status` replaces that of the table, and `retry_after` the usual `Retry-After`; empty: there is none.
    """

    def __init__(
        self,
        code: str,
        message: str | None = None,
        *,
        details: Mapping[str, str] | None = None,
        differs: Iterable[str] = (),
        headers: Iterable[tuple[str, str]] = (),
        status: int | None = None,
        retry_after: str | None = None,
    ) -> None:
        self.kind = ERRORS[code]
        self.status = status or self.kind.status
        usual = str(RETRY_AFTER_SECONDS) if self.status in (429, 503) else ""
        self.retry_after = usual if retry_after is None else retry_after
        self.message = message or f"{self.kind.meaning} {self.kind.remedy}"
        super().__init__(self.message)
        self.details = details
        self.differs = tuple(differs)
        self.headers = tuple(headers)
