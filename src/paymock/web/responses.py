"""The responses of the operations of `/v1`, with what logs, journals and faults need to know."""

from msgspec.structs import asdict

from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.payments.timelines import RenderedPayment
from paymock.rules.faults import Fault, FaultTarget
from paymock.schemas.fields import MAX_ORDER_ID


class OperationResponse(Response, frozen=True):
    """The response of an operation of `/v1`: with the `payment` that it shows, the `scenario` of a created
    payment and, of a request with a fault, its `target` and the response that was `carried_out` instead.
    """

    payment: RenderedPayment | None = None
    scenario: str | None = None
    target: FaultTarget | None = None
    carried_out: Response | None = None


def in_place_of(
    carried_out: Response | None,
    shown: Response,
    target: FaultTarget | None,
    fault: Fault | None = None,
    *,
    lost: bool = False,
) -> OperationResponse:
    """Return `shown` as the response to a request that was `carried_out` with another, or not at all."""
    told = {"fault": fault, "lost": lost, "target": target, "carried_out": carried_out}
    return OperationResponse(**asdict(shown) | told)


def order_id_of(request: Request) -> str | None:
    """The order that the body of a request names, if that has been decoded."""
    body = request.body.decoded
    order_id = body.get("order_id") if isinstance(body, dict) else None
    return order_id if isinstance(order_id, str) and len(order_id) <= MAX_ORDER_ID else None
