"""What log, journal and metrics see of a request and its response. It holds neither the API key nor the
connection, since entries of the journal are encoded long after their requests.
"""

import re
from typing import Literal, Self

import msgspec

from paymock.http.requests import Request
from paymock.http.responses import JSON, REPLAYED, Response
from paymock.payments.timelines import RenderedPayment
from paymock.rules.clock import ClockSetting
from paymock.rules.identifiers import PAYMENT_PREFIX, parse_token
from paymock.sandbox.conflicts import CONFLICT
from paymock.schemas.public import ErrorDetail, ErrorEnvelope
from paymock.web.responses import OperationResponse, order_id_of

_TRACEPARENT = re.compile(
    "(?!ff)([0-9a-f]{2})-(?!0{32})([0-9a-f]{32})-(?!0{16})([0-9a-f]{16})-[0-9a-f]{2}(-.*)?"
)


class Exchange(msgspec.Struct, gc=False):
    """A request with this `id`, and its response after so many seconds. `template` is that of the path, empty
    where it was not routed; `key_name` is that of the API key, None without a valid one; `payment_id` is in
    the path, and `order_id` in the body. `answered_at` is in milliseconds since the epoch, `clock` that of
    the sandbox then.
    """

    id: str
    method: str
    path: str
    response: Response
    seconds: float
    template: str
    key_name: str | None = None
    operation: str = ""
    payment_id: str | None = None
    order_id: str | None = None
    fetch_site: bytes = b""
    idempotency_key: bytes = b""
    traceparent: bytes = b""
    answered_at: int = 0
    clock: ClockSetting = ClockSetting(0, 0, 1.0)  # shows the real time

    @classmethod
    def of(cls, request: Request, response: Response, request_id: str, seconds: float) -> Self:
        headers, is_read = request.headers, request.method == "GET"
        return cls(
            request_id,
            request.method,
            request.path,
            response,
            seconds,
            request.template,
            request.key_name if request.sandbox else None,
            request.operation,
            request.params.get("payment_id"),
            None if is_read else order_id_of(request),
            headers.get(b"sec-fetch-site", b""),
            b"" if is_read else headers.get(b"idempotency-key", b""),
            b"" if b"traceparent" in request.repeated else headers.get(b"traceparent", b""),
        )

    @property
    def trace(self) -> dict[str, str]:
        """The trace id and the parent id in the header `traceparent` (W3C Trace Context), for a log in JSON;
        nothing if it is absent, invalid or repeated.
        """
        match = _TRACEPARENT.fullmatch(self.traceparent.decode("latin-1"))
        # Later versions may append fields; version 00 has exactly four.
        if match is None or (match[1] == "00" and match[4]):
            return {}
        return {"trace_id": match[2], "parent_id": match[3]}

    @property
    def carried_out(self) -> Response:
        """The response without the fault."""
        response = self.response
        return (isinstance(response, OperationResponse) and response.carried_out) or response

    @property
    def is_replayed(self) -> bool:
        return REPLAYED in self.carried_out.headers

    @property
    def seen(self) -> RenderedPayment | None:
        """The payment as the client has seen it."""
        response, fault = self.response, self.response.fault
        is_hidden = fault and fault.hides_status
        if response.lost or self.method == "HEAD" or is_hidden:
            return None
        return response.payment if isinstance(response, OperationResponse) else None

    def subject(
        self, payment: RenderedPayment | None, refusal: ErrorDetail | None
    ) -> tuple[str | None, str | None, int | None]:
        """The ids of the payment and the order, and how far the payment is ahead of its sandbox. `payment` is
        what was created or read.
        """
        response, payment_id = self.response, self.payment_id
        if payment is not None:
            return payment_id or payment.id, payment.order_id, payment.ahead
        if refusal and payment_id and not parse_token(payment_id, PAYMENT_PREFIX):
            payment_id = None
        target = response.target if isinstance(response, OperationResponse) else None
        return payment_id, (target and target.order_id) or self.order_id, target.ahead if target else None

    @property
    def idempotency(self) -> Literal["new", "replayed", "conflict"] | None:
        """What became of an idempotency key."""
        carried_out = self.carried_out
        if carried_out.status == 201:
            return "replayed" if self.is_replayed else "new"
        return "conflict" if carried_out.error == CONFLICT else None

    @property
    def refusal(self) -> ErrorDetail | None:
        """The error in the body of the response."""
        response = self.response
        if response.error is None or response.content_type != JSON or self.carried_out.status == 201:
            return None
        return msgspec.json.decode(response.body, type=ErrorEnvelope).error
