"""The client of the commands: its replies are typed by the schemas of the API."""

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, TypeVar

import msgspec

from paymock.client import http
from paymock.client.http import Call
from paymock.schemas import control
from paymock.schemas.replies import decode_json_reply, decode_reply

T = TypeVar("T")


class ApiClient(http.Client):
    """A client of the server at `url`, for the sandbox of `api_key`."""

    def call(self, reply_type: type[T], method: str, path: str, **request: Any) -> Call[T]:
        """Send a request, with the options of `send`. Its result is a `reply_type`. Raises Unreachable."""
        return self.send(method, path, decode=partial(decode_reply, reply_type=reply_type), **request)

    def get(self, reply_type: type[T], path: str, **request: Any) -> T:
        """Send a GET request and return its reply. Raises Refused, Unreachable."""
        return self.call(reply_type, "GET", path, **request).result()

    def get_json(self, schema: str, path: str, query: Mapping[str, Any]) -> Any:
        """Send a GET request and return the JSON of its reply, which fits the schema. Raises Refused,
        Unreachable.
        """
        return self.send("GET", path, query=query, decode=self.decoder(schema)).result()

    def decoder(self, schema: str) -> Callable[[bytes], Any]:
        """A function that decodes a reply as JSON, and raises ValueError when it does not fit the schema."""
        return partial(decode_json_reply, reply_type=getattr(control, schema))

    def checkout_url(self, payment_id: str) -> str:
        """The URL of the checkout of a payment, which needs no API key."""
        return f"{self.url}/checkout/{payment_id}"

    def convert(self, value: Any, reply_type: type[T]) -> T:
        """Convert decoded JSON to a `reply_type`. Raises Unreachable when it does not fit."""
        try:
            return msgspec.convert(value, reply_type)
        except msgspec.ValidationError:
            raise self.unexpected_reply() from None
