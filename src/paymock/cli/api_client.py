"""The client, for commands: its replies are of the types that the API declares."""

from functools import partial
from typing import Any, TypeVar

import msgspec

from paymock.client import http
from paymock.client.http import Call

T = TypeVar("T")


class Client(http.Client):
    """The server at `url`, and the sandbox of `api_key`."""

    def call(self, of: type[T], method: str, path: str, **request: Any) -> Call[T]:
        """Sends a request as `send` does; the result of the call is the reply, as a value of the type `of`.
        Raises Unreachable.
        """
        return self.send(method, path, decode=partial(_decoded, of=of), **request)

    def get(self, of: type[T], path: str, **request: Any) -> T:
        """The reply to a GET. Raises Refused, Unreachable."""
        return self.call(of, "GET", path, **request).result()

    def read(self, of: type[T], value: Any) -> T:
        """Decoded JSON as a value of the type `of`. Raises Unreachable for what paymock would not say."""
        try:
            return msgspec.convert(value, of)
        except msgspec.ValidationError:
            raise self.stranger() from None


def _decoded(content: bytes, of: type[T]) -> T:
    try:
        return msgspec.json.decode(content, type=of)
    except msgspec.MsgspecError as error:
        raise ValueError(error) from None
