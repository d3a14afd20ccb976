"""Requests that must be refused, and their neighbors that must not be: how a row is built.

In the bytes of a row, `{api_key}` stands for an API key whose sandbox is empty, `{key}` for an idempotency
key that was never used, `{payment}` and `{others_payment}` for the ids of payments of this and of another API
key, `{payment_token}` for what follows `pay_` in the first of them, `{endpoint_token}` for what follows `we_`
in the id of a webhook endpoint. The server's clock says 2030-01-31T12:00:00Z.
"""

import copy
import json
from collections.abc import Mapping
from typing import Any, NamedTuple

from tests.support.client import ORDER, with_member

KIB = 1024
CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
API_KEY_LENGTH = 40
PAYMENTS, WEBHOOKS = "/v1/payments", "/v1/webhooks"

HOST = "Host: 127.0.0.1"
AUTHORIZATION = "Authorization: Bearer {api_key}"
IDEMPOTENCY = "Idempotency-Key: {key}"
JSON_TYPE = "Content-Type: application/json"
KEYED_JSON = (AUTHORIZATION, JSON_TYPE, IDEMPOTENCY)

REALM = 'Bearer realm="paymock"'
INVALID_TOKEN = f'{REALM}, error="invalid_token"'


class Case(NamedTuple):
    """A request and what must come of it.

    A refusal has the `code` and names the `fields`, no more and no fewer; `headers` are headers of the reply.
    `body` is the JSON value that was sent: a creation shows it. `private` must not be repeated.
    """

    name: str
    data: bytes
    status: int
    code: str = ""
    fields: tuple[str, ...] = ()
    headers: Mapping[str, str] = {}
    body: Any = None
    private: tuple[str, ...] = ()


def changed(path: str, value: Any = ...) -> Any:
    """A complete order, but for `value` at `path`, in the notation of `details`; without a value, but for
    what is there.
    """
    return with_member(copy.deepcopy(dict(ORDER)), path, value)


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


ORDER_BYTES = encoded(ORDER)


def head(*lines: str) -> bytes:
    """A request head of these lines."""
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def send(method: str, path: str, *lines: str, body: bytes | None = None) -> bytes:
    """A request whose body, if it has one, is announced by its length."""
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    return head(f"{method} {path} HTTP/1.1", HOST, *lines, *length) + (body or b"")


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def stream(body: bytes, *lines: str) -> bytes:
    """A payment creation whose body comes in chunks, without a length."""
    chunks = [body[start : start + 16 * KIB] for start in range(0, len(body), 16 * KIB)]
    return send("POST", PAYMENTS, *(lines or KEYED_JSON), "Transfer-Encoding: chunked") + chunked(*chunks)


def read(path: str, *lines: str) -> bytes:
    return send("GET", path, *(lines or (AUTHORIZATION,)))


def post(body: bytes, *lines: str, path: str = PAYMENTS) -> bytes:
    return send("POST", path, *(lines or KEYED_JSON), body=body)


def order(*lines: str) -> bytes:
    """An acceptable order with these header lines."""
    return post(ORDER_BYTES, *lines)


def accepted(name: str, body: Any, path: str = PAYMENTS) -> Case:
    return Case(name, post(encoded(body), path=path), 201, body=body)


def unacceptable(name: str, body: Any, *fields: str, path: str = PAYMENTS) -> Case:
    return Case(name, post(encoded(body), path=path), 422, "validation_failed", fields, body=body)


def accepted_values(path: str, values: Mapping[str, Any]) -> list[Case]:
    """One order for each value, which may stand at `path`."""
    return [accepted(f"{path}: {name}", changed(path, value)) for name, value in values.items()]


def unacceptable_values(path: str, values: Mapping[str, Any], *also: str) -> list[Case]:
    """One order for each value, which may not stand at `path`; `also` names what else that makes wrong."""
    return [
        unacceptable(f"{path}: {name}", changed(path, value), path, *also) for name, value in values.items()
    ]


def case_per(
    values: Mapping[str, bytes], status: int, code: str = "", headers: Mapping[str, str] | None = None
) -> list[Case]:
    """One case for each request, all with the same outcome."""
    return [Case(name, data, status, code, headers=headers or {}) for name, data in values.items()]
