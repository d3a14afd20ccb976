"""Requests that must be refused, and their neighbors that must not be: how a row is built.

In the bytes of a row, `{api_key}` stands for an API key whose sandbox is empty, `{key}` for an idempotency
key that was never used, `{payment}` for the id of a payment of the API key. The server's clock says
2030-01-31T12:00:00Z.
"""

import copy
import json
from collections.abc import Iterable
from typing import Any, NamedTuple

from tests.support.client import ORDER, with_member

KIB = 1024
CHECKSUMMED = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"
PAYMENTS, WEBHOOKS = "/v1/payments", "/v1/webhooks"

HOST = "Host: 127.0.0.1"
AUTHORIZATION = "Authorization: Bearer {api_key}"
IDEMPOTENCY = "Idempotency-Key: {key}"
JSON_TYPE = "Content-Type: application/json"
KEYED_JSON = (AUTHORIZATION, JSON_TYPE, IDEMPOTENCY)
CHUNKED = "Transfer-Encoding: chunked"


class Case(NamedTuple):
    """A request and its expected reply.

    A refusal has the `code` and names the `fields`, no more and no fewer. `header` is a header of the reply.
    `body` is the JSON value that was sent: a creation shows it.
    """

    data: bytes
    status: int
    code: str = ""
    fields: tuple[str, ...] = ()
    header: tuple[str, str] | None = None
    body: Any = None


def changed(path: str, value: Any = ...) -> Any:
    """A complete order with `value` at `path`, in the notation of `details`, or without that member."""
    return with_member(copy.deepcopy(dict(ORDER)), path, value)


def encoded(value: Any) -> bytes:
    return json.dumps(value, ensure_ascii=False).encode()


ORDER_BYTES = encoded(ORDER)


def head(*lines: str) -> bytes:
    return "".join(f"{line}\r\n" for line in (*lines, "")).encode()


def send(method: str, path: str, *lines: str, body: bytes | None = None) -> bytes:
    """A request whose body, if it has one, is announced by its length."""
    length = [] if body is None else [f"Content-Length: {len(body)}"]
    return head(f"{method} {path} HTTP/1.1", HOST, *lines, *length) + (body or b"")


def chunked(*chunks: bytes) -> bytes:
    return b"".join(b"%x\r\n%s\r\n" % (len(chunk), chunk) for chunk in (*chunks, b""))


def read(path: str, *lines: str) -> bytes:
    return send("GET", path, *(lines or (AUTHORIZATION,)))


def post(body: bytes, *lines: str, path: str = PAYMENTS) -> bytes:
    return send("POST", path, *(lines or KEYED_JSON), body=body)


def cases(status: int, code: str, *requests: bytes, header: tuple[str, str] | None = None) -> list[Case]:
    return [Case(data, status, code, header=header) for data in requests]


def accepted(body: Any, path: str = PAYMENTS) -> Case:
    return Case(post(encoded(body), path=path), 201, body=body)


def refused(body: Any, *fields: str, path: str = PAYMENTS) -> Case:
    return Case(post(encoded(body), path=path), 422, "validation_failed", fields, body=body)


def values(path: str, good: Iterable[Any], bad: Iterable[Any]) -> list[Case]:
    """An order for each value at `path`."""
    return [accepted(changed(path, value)) for value in good] + [
        refused(changed(path, value), path) for value in bad
    ]
