"""A lane for requests that can be answered at once: straight from the parser's callbacks, without the task
and the messages of ASGI. Whatever does not fit into it goes to ASGI, unchanged.
"""

import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from paymock.web.http import MAX_BODY
from paymock.web.operations import PUBLIC
from paymock.web.protocol import GuardedProtocol

_BELOW = PUBLIC.encode()
_REST = re.compile(b"[?#]")
_METHODS = (b"GET", b"POST")


class LaneProtocol(GuardedProtocol):
    """The guarded protocol with the lane: for requests below `/v1` that come whole and wait for nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_lane = False

    def data_received(self, data: bytes) -> None:
        """What has not come whole does not fit."""
        super().data_received(data)
        if self._in_lane:
            self._leave()

    def call_application(self) -> None:
        """A request that may fit is in the lane until its body has come."""
        self._in_lane = self._may_fit()
        if not self._in_lane:
            super().call_application()

    def complete_request(self) -> None:
        """The request is whole: it is answered now, or leaves the lane."""
        if self._in_lane and not self._answered(b"".join(self._parts)):
            self._leave()
        if not self._in_lane:
            super().complete_request()
            return
        self._in_lane = False
        self._parts.clear()
        self.request_completed(answered=True)

    def _collect(self) -> None:
        if self._in_lane:
            self._leave()
        super()._collect()

    def _may_fit(self) -> bool:
        before: RequestResponseCycle | None = self.cycle
        idle = before is None or before.response_complete
        return (
            idle
            and self.url.startswith(_BELOW)
            and not _REST.search(self.url)
            and self._method in _METHODS
            and self.parser.should_keep_alive()
            and not self.expect_100_continue
            and not self.flow.write_paused
        )

    def _answered(self, body: bytes) -> bool:
        if len(body) > MAX_BODY:
            return False
        self.scope["method"] = self._method.decode("ascii")
        self.scope["raw_path"] = self.url
        answer = self.app.answer_at_once(self.scope, body)
        if answer is None:
            return False
        response, headers = answer
        lines = [b": ".join(line) for line in [*self.server_state.default_headers, *headers]]
        self.transport.write(STATUS_LINE[response.status] + b"\r\n".join([*lines, b"", response.body]))
        self.server_state.total_requests += 1
        return True

    def _leave(self) -> None:
        """Hands the request, as far as it has come, over to ASGI."""
        self._in_lane = False
        super().call_application()
