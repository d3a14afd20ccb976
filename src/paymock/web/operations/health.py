"""Health checks, which need no API key."""

import msgspec

from paymock import __version__
from paymock.app.payments import PaymentsService
from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.schemas import public as schemas
from paymock.web.operations.operations import Operation

_OK = Response(200, msgspec.json.encode(schemas.Health(status="ok", version=__version__)))


async def livez(service: PaymentsService, request: Request) -> Response:
    return _OK


async def readyz(service: PaymentsService, request: Request) -> Response:
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
        reply=schemas.Health,
    ),
    Operation(
        method="GET",
        path="/readyz",
        handler=readyz,
        operation_id="readyz",
        tag="Health",
        summary="Can requests be served?",
        description="For a load balancer: 503 while the store cannot be reached.",
        reply=schemas.Health,
        errors=("store_unavailable",),
    ),
)
