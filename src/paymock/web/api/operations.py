"""Operations of the API: route, handler and OpenAPI description in one place."""

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Literal, NamedTuple

from msgspec import Struct

from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import CONTROL, PUBLIC

PAYMENT_ID = {"payment_id": "The `id` of the create reply."}
"""The description of the path parameter of most operations."""

BODY_ERRORS = (
    "invalid_json",
    "payload_too_large",
    "unsupported_media_type",
    "unsupported_content_encoding",
    "validation_failed",
)
"""The error codes of every operation with a body."""

Handler = Callable[[Any, Request], Awaitable[Response]]
"""A handler. Its first argument is the service that it calls."""


class Query(NamedTuple):
    """A query parameter: its name, description and schema."""

    name: str
    description: str
    schema: Mapping[str, Any]
    required: bool = False


class Operation(Struct, frozen=True, kw_only=True):
    """An operation of the API. `errors` are its codes besides those of every operation."""

    method: str
    path: str
    handler: Handler
    operation_id: str
    tag: str
    summary: str
    description: str
    reply: type | tuple[type, ...] | None
    """The type of the body; of several types, the body is one, and the first is usual."""

    status: int = 200
    request: type | tuple[type, ...] | None = None
    """The type of the body; of several types, the body is exactly one."""

    idempotency: Literal["required", "optional"] | None = None
    takes_scenario: bool = False
    errors: tuple[str, ...] = ()
    reply_headers: tuple[str, ...] = ()
    parameters: Mapping[str, str] = {}
    """The descriptions of path parameters by name."""

    query: tuple[Query, ...] = ()

    @property
    def needs_key(self) -> bool:
        return self.path.startswith((PUBLIC, CONTROL))
