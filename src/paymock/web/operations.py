"""An operation of the API: its route, its handler, and what the OpenAPI document says of it, in one place."""

from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from paymock.service import Service
from paymock.web.http import Request, Response

KEYED = "/v1/"
"""Paths below it need an API key."""

Handler = Callable[[Service, Request], Awaitable[Response]]


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
    reply: type
    status: int = 200
    request: type | None = None
    takes_scenario: bool = False
    errors: tuple[str, ...] = ()
    reply_headers: tuple[str, ...] = ()
    parameters: Mapping[str, tuple[str, Any]] = field(default_factory=dict)
    """Path parameters by name: what they mean, and an example or None where none would be found."""

    @property
    def keyed(self) -> bool:
        """Whether the operation needs an API key; those can also be used from any web origin."""
        return self.path.startswith(KEYED)
