"""The health checks. They need no API key."""

import msgspec

from paymock.core import wire
from paymock.service import Service
from paymock.web.http import Request, Response
from paymock.web.operations import Operation

_OK = Response(200, msgspec.json.encode(wire.Health(status="ok")))


async def livez(service: Service, request: Request) -> Response:
    return _OK


async def readyz(service: Service, request: Request) -> Response:
    await service.ready()
    return _OK


OPERATIONS = (
    Operation(
        method="GET",
        path="/livez",
        handler=livez,
        operation_id="livez",
        tag="Health",
        summary="Is the process alive?",
        description="For a supervisor: answers as long as the process does.",
        reply=wire.Health,
    ),
    Operation(
        method="GET",
        path="/readyz",
        handler=readyz,
        operation_id="readyz",
        tag="Health",
        summary="Can requests be served?",
        description="For a load balancer: 503 while the store cannot be reached.",
        reply=wire.Health,
        errors=("store_unavailable",),
    ),
)
