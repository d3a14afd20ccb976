"""Operations of the API: a row says the route, what it calls, the types of its requests and replies, and what
the OpenAPI document says of it.
"""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from operator import attrgetter
from typing import Any, Literal

import msgspec
from msgspec import Struct
from msgspec.structs import asdict

from paymock.http.headers import check_json_body, idempotency_key
from paymock.http.requests import Request
from paymock.http.responses import JSON, REPLAYED, TEXT, Response
from paymock.http.routing import CONTROL, PUBLIC
from paymock.rules.errors import PaymockError
from paymock.sandbox.sandboxes import KeyedRequest
from paymock.schemas import json_decoding
from paymock.schemas.public import Query
from paymock.schemas.validation import Q, QueryParser, checker_for, validate

_encode = msgspec.json.Encoder().encode

PAYMENT_ID = {"payment_id": "The `id` of the create reply."}
"""The description of the path parameter of most operations."""

Handler = Callable[..., Awaitable[Response]]
"""A handler. Its first arguments are the service that it calls and the request."""


class Operation(Struct, frozen=True, kw_only=True):
    """An operation of the API. `errors` are its codes besides those that follow from its form."""

    method: str
    path: str
    call: str = ""
    """The method of the service that carries out a request. Its arguments are the sandbox and, by name, the
    values in the path, the query and the body.
    """

    handler: Handler | None = None
    """Carries out the request in place of `call`."""

    operation_id: str
    tag: str
    summary: str
    description: str
    reply: type | tuple[type, ...] | None
    """The type of the body; of several types, the body is one, and the first is usual. `str`: plain text."""

    status: int = 200
    request: type | None = None
    """The type of the body."""

    variants: tuple[type, ...] = ()
    """Types of which a body of type `request` is exactly one."""

    waits: bool = False
    """Whether it waits for a change, but no longer than its client."""

    idempotency: Literal["required", "optional"] | None = None
    takes_scenario: bool = False
    errors: tuple[str, ...] = ()
    reply_headers: tuple[str, ...] = ()
    parameters: Mapping[str, str] = {}
    """The descriptions of path parameters by name."""

    query: type[Query] | None = None

    @property
    def needs_key(self) -> bool:
        return self.path.startswith((PUBLIC, CONTROL))


def handler_of(operation: Operation, service: Any) -> Handler:
    """The handler of a row of the table, for a service."""
    if operation.handler is not None:
        return partial(operation.handler, service)
    carry_out = attrgetter(operation.call)(service)
    parse = QueryParser(operation.query) if operation.query else None
    check = checker_for(operation.request) if operation.request else None
    encode, content_type = (str.encode, TEXT) if operation.reply is str else (_encode, JSON)

    async def handle(request: Request) -> Response:
        arguments: dict[str, Any] = {**request.params}
        if parse is not None:
            arguments |= asdict(parse_query(request, parse))
        if operation.idempotency:
            arguments["request"] = None
            if operation.idempotency == "required" or b"idempotency-key" in request.headers:
                arguments["request"] = await keyed_request(request)
        if operation.request is not None and check is not None:
            check_json_body(request)
            arguments |= asdict(validate(check, await request.json(), operation.request))
        if operation.waits or arguments.get("until_observed"):
            with service.waiting_request(request.owner):
                result = await request.unless_gone(carry_out(request.sandbox, **arguments))
        else:
            result = await carry_out(request.sandbox, **arguments)
        if operation.reply is None:
            return Response(operation.status, content_type=None)
        replayed = False
        if operation.idempotency:
            result, replayed = result
        headers = (REPLAYED,) if replayed else ()
        return Response(operation.status, encode(result), content_type, headers)

    return handle


def parse_query(request: Request, parse: QueryParser[Q]) -> Q:
    """Return the query of a request. Raises PaymockError `invalid_query`."""
    try:
        parameters = request.query(parse.names)
    except ValueError as error:
        raise PaymockError("invalid_query", f"{error}.") from None
    return parse(parameters)


async def keyed_request(request: Request) -> KeyedRequest:
    """Return a request with its idempotency key and its body. Raises PaymockError if either is invalid."""
    check_json_body(request)
    key = idempotency_key(request)
    body = await request.json()
    fingerprint = json_decoding.fingerprint(request.method, request.path, body)
    return KeyedRequest(request.sandbox, key, fingerprint, body, request.decision)
