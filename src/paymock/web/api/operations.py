"""An operation of the API: its route, its handler, and what the OpenAPI document says of it, in one place."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal, NamedTuple

from paymock.web.http.requests import Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import CHECKOUT, CONTROL, PUBLIC

PAYMENT_ID = {"payment_id": "The `id` of the create reply."}
"""What the parameter of most paths means."""

BODY_ERRORS = (
    "invalid_json",
    "payload_too_large",
    "unsupported_media_type",
    "unsupported_content_encoding",
    "validation_failed",
)
"""The codes that any operation with a body adds."""

Handler = Callable[[Any, Request], Awaitable[Response]]
"""Answers a request; the first argument is the use cases that it calls."""


class Query(NamedTuple):
    """A parameter of the query: its name, what it means, and its schema."""

    name: str
    description: str
    schema: Mapping[str, Any]


@dataclass(frozen=True, kw_only=True)
class Operation:
    """One row of the API. `errors` are the codes that this operation adds to those that any can answer
    with.
    """

    method: str
    path: str
    handler: Handler
    operation_id: str
    tag: str
    summary: str
    description: str
    reply: type | None
    status: int = 200
    request: type | None = None
    idempotency: Literal["required", "optional"] | None = None
    takes_scenario: bool = False
    errors: tuple[str, ...] = ()
    reply_headers: tuple[str, ...] = ()
    parameters: Mapping[str, str] = field(default_factory=dict)
    """Path parameters by name: what they mean."""

    query: tuple[Query, ...] = ()

    @property
    def of_checkout(self) -> bool:
        """Whether a customer asks, who has nothing but the id of a payment."""
        return self.path.startswith(CHECKOUT)

    @property
    def needs_key(self) -> bool:
        """Whether the operation needs an API key."""
        return self.path.startswith((PUBLIC, CONTROL))
