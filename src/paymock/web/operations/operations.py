"""Operations of the API: a row says the route, the call, its types, and what the OpenAPI document tells."""

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from typing import Any, Generic, Literal, TypeVar

import msgspec
from msgspec import Struct
from msgspec.structs import replace

from paymock.http.headers import check_json_body, idempotency_key
from paymock.http.requests import ClientGone, Request
from paymock.http.responses import JSON, REPLAYED, TEXT, Response
from paymock.http.routing import CONTROL, PUBLIC
from paymock.rules.errors import PaymockError
from paymock.sandbox.owner_limits import LARGE_REPLY
from paymock.sandbox.scheduler import in_slices, yield_turn
from paymock.sandbox.snapshot import KeyedRequest
from paymock.schemas import json as json_decoding
from paymock.schemas.validation import Q, QueryParser, checker_for, validate

_encode = msgspec.json.Encoder().encode

_PATH_PARAMETERS = {
    "payment_id": "The `id` of the create reply.",
    "chain": "A chain identifier: an `id` of `GET /v1/chains`.",
    "fault_id": "The `id` of the rule.",
}
"""Their descriptions."""

Handler = Callable[..., Awaitable[Response]]
"""A handler. Its first arguments are the service that it calls and the request."""

A = TypeVar("A")
Result = Awaitable[object]


class Operation(Struct, frozen=True, kw_only=True):
    """An operation of the API. `errors` are its codes besides those that follow from its form."""

    route: str
    """The method and the template of the path: `GET /v1/chains`."""

    call: Any = None
    """What carries out a request: see ServiceOperation."""

    handler: Handler | None = None
    """Carries out a request in place of `call`."""

    operation_id: str
    tag: str
    summary: str
    description: str
    reply: type | tuple[type, ...] | None = None
    """The type of the body; of several types, the body is one, and the first is usual. `str`: plain text."""

    creates: bool = False
    request: type | None = None
    """The type of the body."""

    waits: bool = False
    """Whether it waits for a change, but no longer than its client."""

    idempotency: Literal["required", "optional"] | None = None
    takes_scenario: bool = False
    errors: tuple[str, ...] = ()
    reply_headers: tuple[str, ...] = ()
    query: type | None = None
    """The type of the query."""

    @property
    def method(self) -> str:
        return self.route.partition(" ")[0]

    @property
    def path(self) -> str:
        return self.route.partition(" ")[2]

    @property
    def status(self) -> int:
        return 204 if self.reply is None else 201 if self.creates else 200

    @property
    def parameters(self) -> Mapping[str, str]:
        """The descriptions of path parameters by name."""
        return {name: text for name, text in _PATH_PARAMETERS.items() if f"{{{name}}}" in self.path}

    @property
    def has_large_reply(self) -> bool:
        """Whether its reply may take megabytes."""
        is_of_one = self.waits or "payment_id" in self.parameters
        return self.query is not None and self.method == "GET" and not is_of_one

    @property
    def needs_key(self) -> bool:
        return self.path.startswith((PUBLIC, CONTROL))


Call = (
    Callable[[Any, str], Result]
    | Callable[[Any, str, str], Result]
    | Callable[[Any, str, A], Result]
    | Callable[[Any, str, str, A], Result]
    | Callable[[Any, str, str, A, KeyedRequest | None], Awaitable[tuple[object, bool]]]
)
"""A method of a service. Its arguments are the sandbox, the id in the path, and the query or the body, as far
as there are such; with `idempotency`, the keyed request, and it returns whether that repeats an earlier one.
"""


class ServiceOperation(Operation, Generic[A], frozen=True, kw_only=True):
    """An operation that calls a service. Its query or body is an `A`."""

    call: Call[A]
    request: type[A] | None = None
    query: type[A] | None = None


def handler_of(operation: Operation, service: Any) -> Handler:
    """The handler of a row of the table, for a service or for one of its `services`."""
    if operation.handler is not None:
        return partial(operation.handler, service)
    call = operation.call
    called = next(one for one in service.services if getattr(type(one), call.__name__, None) is call)
    parse: QueryParser[Any] | None = QueryParser(operation.query) if operation.query else None
    check = checker_for(operation.request) if operation.request else None
    encode, content_type = (str.encode, TEXT) if operation.reply is str else (_encode, JSON)
    status = operation.status

    async def handle(request: Request) -> Response:
        await yield_turn()
        params = dict(request.params)
        if "payment_id" in params:
            params["payment_id"] = await service.payment_id(request.sandbox, params["payment_id"])
        arguments: list[Any] = [*params.values()]
        is_waiting = operation.waits
        if parse is not None:
            arguments.append(parse_query(request, parse))
        keyed = None
        if operation.idempotency and b"idempotency-key" in request.headers:
            keyed = await keyed_request(request, operation.path.format_map(params))
        if operation.request is not None and check is not None:
            check_json_body(request)
            value = await request.json()
            await yield_turn()
            body: Any = validate(check, value, operation.request)
            arguments.append(body)
            is_waiting = is_waiting or getattr(body, "until_observed", False)
        if operation.idempotency:
            arguments.append(keyed)
        if is_waiting:
            with service.waiting_request(request.owner, request.end):
                try:
                    result = await request.unless_gone(call(called, request.sandbox, *arguments))
                except ClientGone:  # or it has closed its side only, and reads what is known now
                    if operation.query is None:
                        raise
                    await LARGE_REPLY.get()()
                    arguments[-1] = replace(arguments[-1], timeout=0.0)
                    result = await call(called, request.sandbox, *arguments)
        else:
            result = await call(called, request.sandbox, *arguments)
        if operation.reply is None:
            return Response(status, content_type=None)
        result, replayed = result if operation.idempotency else (result, False)
        headers = (REPLAYED,) if replayed else ()
        if isinstance(data := getattr(result, "data", None), list):
            result = replace(result, data=await in_slices(msgspec.Raw(_encode(item)) for item in data))
        return Response(status, encode(result), content_type, headers)

    return handle


def parse_query(request: Request, parse: QueryParser[Q]) -> Q:
    """Return the query of a request. Raises PaymockError `invalid_query`."""
    try:
        parameters = request.query(parse.names)
    except ValueError as error:
        raise PaymockError("invalid_query", f"{error}.") from None
    return parse(parameters)


async def keyed_request(request: Request, path: str | None = None) -> KeyedRequest:
    """Return a request with its idempotency key and its body, and with `path` for the one that was sent.
    Raises PaymockError if key or body is invalid.
    """
    check_json_body(request)
    key = idempotency_key(request)
    if len(request.body.content or await request.body.read(request.client)) > 4096:
        await yield_turn()  # to decode it may take milliseconds
    body = await request.json()
    fingerprint = json_decoding.fingerprint(request.method, path or request.path, body)
    return KeyedRequest(request.sandbox, key, fingerprint, body)
