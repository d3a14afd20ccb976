"""Requests that came before. Whoever polls, or tries again, sends the same bytes each time; whoever creates
payments sends the same head each time, but for the idempotency key. What these bytes mean is found out once.
"""

import re
from collections import OrderedDict
from collections.abc import Iterator

from paymock.web.http.headers import IDEMPOTENCY_KEY
from paymock.web.http.requests import Request
from paymock.web.http.responses import Response

MOST = 1_000
"""How many requests are known by all their bytes, and how many by their head."""

LONGEST = 4_096
"""How many bytes a request may have that is known."""

_END_OF_HEAD = b"\r\n\r\n"
_KEY = re.compile(rb"\r\n[Ii]dempotency-[Kk]ey: (%b)\r\n" % IDEMPOTENCY_KEY.encode())


class RequestCache:
    """What was found out about requests that were answered, by the bytes they came as."""

    def __init__(self) -> None:
        self._whole: OrderedDict[bytes, Request] = OrderedDict()
        self._heads: OrderedDict[bytes, Request] = OrderedDict()

    def __len__(self) -> int:
        return len(self._whole) + len(self._heads)

    def find(self, data: bytes, ids: Iterator[str]) -> Request | None:
        """The request that `data` is, if that is known; it has the next of `ids`."""
        known = self._whole.get(data)
        if known is not None:
            return known.again(next(ids))
        head, key, body = _parts(data)
        known = self._heads.get(head)
        if known is None or known.size != len(body):
            return None
        return known.with_key(next(ids), key, body)

    def remember(self, data: bytes, request: Request, response: Response) -> None:
        """Knows the request that came as `data` from now on, if it would mean the same once more."""
        if len(data) > LONGEST:
            return
        if response.status == 200 or response.replayed:
            _keep(self._whole, data, request)
        elif response.status == 201:
            head, _, body = _parts(data)
            if len(body) == request.size:  # not so in chunks
                _keep(self._heads, head, request.without_key())


def _parts(data: bytes) -> tuple[bytes, bytes, bytes]:
    """The head without the idempotency key, the key, and the body; nothing where there is no such key."""
    end = data.find(_END_OF_HEAD) + len(_END_OF_HEAD)
    key = _KEY.search(data, 0, end)
    if key is None:
        return b"", b"", b""
    begin, after = key.span(1)
    return data[:begin] + data[after:end], data[begin:after], data[end:]


def _keep(requests: OrderedDict[bytes, Request], data: bytes, request: Request) -> None:
    if len(requests) >= MOST and data not in requests:
        requests.popitem(last=False)
    requests[data] = request
