"""A cache of parsed requests, keyed by their raw bytes.

Clients that poll or retry send the same bytes each time. Clients that create payments send the same head each
time, except for the idempotency key. Such requests are not parsed and routed again.
"""

import re
from typing import NamedTuple

from msgspec.structs import replace

from paymock.cache import BoundedCache
from paymock.web.http.headers import IDEMPOTENCY_KEY
from paymock.web.http.requests import Body
from paymock.web.http.responses import Response
from paymock.web.http.routing import RoutedRequest

SIZE = 1_000
"""The capacity for complete requests, and for heads."""

MAX_LENGTH = 4_096
"""The largest request that is cached, in bytes."""

_END_OF_HEAD = b"\r\n\r\n"
_KEY = re.compile(rb"\r\n[Ii]dempotency-[Kk]ey: (%b)\r\n" % IDEMPOTENCY_KEY.encode())


class _Head(NamedTuple):
    """A creation without its idempotency key and its body, and the length of the body."""

    routed: RoutedRequest
    body_length: int


class RequestCache:
    """Answered requests by their raw bytes."""

    def __init__(self) -> None:
        self._requests: BoundedCache[bytes, RoutedRequest] = BoundedCache(SIZE)
        self._heads: BoundedCache[bytes, _Head] = BoundedCache(SIZE)

    def __len__(self) -> int:
        return len(self._requests) + len(self._heads)

    def find(self, data: bytes) -> RoutedRequest | None:
        """Return the cached request whose raw bytes are `data`, or None."""
        routed = self._requests.get(data)
        if routed is not None:
            return routed
        head, key, body = _split(data)
        cached = self._heads.get(head)
        if cached is None or cached.body_length != len(body):
            return None
        request = cached.routed.request
        headers = {**request.headers, b"idempotency-key": key}
        return cached.routed._replace(request=replace(request, headers=headers, content=Body(body)))

    def add(self, data: bytes, routed: RoutedRequest, response: Response) -> None:
        """Cache the request whose raw bytes are `data`, if the same bytes are sure to mean the same again."""
        if len(data) > MAX_LENGTH:
            return
        if response.status == 200 or response.replayed:
            self._requests[data] = routed
        elif response.status == 201:
            head, _, body = _split(data)
            request = routed.request
            if request.headers.get(b"content-length") == b"%d" % len(body):  # false for a chunked body
                headers = {
                    name: value for name, value in request.headers.items() if name != b"idempotency-key"
                }
                keyless = routed._replace(request=replace(request, headers=headers, content=Body()))
                self._heads[head] = _Head(keyless, len(body))


def _split(data: bytes) -> tuple[bytes, bytes, bytes]:
    """Return the head without the idempotency key, the key, and the body; empty bytes if there is no key."""
    end = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
    key = _KEY.search(data, 0, end)
    if key is None:
        return b"", b"", b""
    key_start, key_end = key.span(1)
    return data[:key_start] + data[key_end:end], data[key_start:key_end], data[end:]
