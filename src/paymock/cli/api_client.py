"""The client of the commands: its replies are checked against the schemas of the API."""

from collections.abc import Callable
from functools import partial
from typing import Any, TypeVar

import msgspec

from paymock.client.sandbox import Sandbox
from paymock.schemas import control
from paymock.schemas.replies import decode_json_reply

T = TypeVar("T")


class ApiClient(Sandbox):
    """A sandbox. A reply that does not fit its schema is not one of paymock: that raises Unreachable."""

    def _decoder(self, reply: str | None) -> Callable[[bytes], Any]:
        return partial(decode_json_reply, reply_type=getattr(control, reply) if reply else type(None))

    def checkout_url(self, payment_id: str) -> str:
        """The URL of the checkout of a payment, which needs no API key."""
        return f"{self.url}/checkout/{payment_id}"


def typed(value: Any, reply_type: type[T]) -> T:
    """The reply of a call as its type."""
    return msgspec.convert(value, reply_type)
