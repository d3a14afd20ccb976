"""A lane for requests that can be answered at once: straight from the parser's callbacks, without the task
and the messages of ASGI. Whatever does not fit into it goes to ASGI, unchanged.
"""

import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import STATUS_LINE, RequestResponseCycle

from paymock.web.http.requests import MAX_BODY, Request
from paymock.web.http.responses import Response
from paymock.web.http.routing import PUBLIC
from paymock.web.transport.protocol import StrictHttpProtocol

_BELOW = PUBLIC.encode()
_REST = re.compile(b"[?#]")
_METHODS = (b"GET", b"POST")


class FastPathProtocol(StrictHttpProtocol):
    """The guarded protocol with the lane: for requests below `/v1` that come whole and wait for nothing."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._in_lane = False
        self._between = True  # whether the parser has come to the end of a request
        self._begun = 0  # requests that have begun since the last data came
        self._last: tuple[Request, Response] | None = None  # that the lane has answered

    def data_received(self, data: bytes) -> None:
        """What is known by its bytes is answered. What has not come whole does not fit."""
        between = self._between and not self._received and self._refusal is None
        known = self.app.request_cache.find(data, self.app.ids) if between and self._idle() else None
        if known is not None and (response := self.app.answer_at_once(known)) is not None:
            self.app.write_batch.add(self.transport, self._reply(known, response))
            self.request_completed(answered=True)
            if response.replayed:
                self.app.request_cache.remember(data, known, response)
            return
        self.app.write_batch.empty()  # what takes another way must not overtake a reply
        self._begun, self._last = 0, None
        super().data_received(data)
        if self._in_lane:
            self._leave()
        if self._last is not None and between and self._between and self._begun == 1:
            self.app.request_cache.remember(data, *self._last)

    def on_message_begin(self) -> None:
        """Another request begins."""
        super().on_message_begin()
        self._between = False
        self._begun += 1

    def call_application(self) -> None:
        """A request that may fit is in the lane until its body has come."""
        self._in_lane = self._may_fit()
        if not self._in_lane:
            super().call_application()

    def complete_request(self) -> None:
        """The request is whole: it is answered now, or leaves the lane."""
        if self._in_lane:
            request = self._request()
            response = None if request.size > MAX_BODY else self.app.answer_at_once(request)
            if response is None:
                self._leave()
            else:
                self.transport.write(self._reply(request, response))
                self._last = request, response
        if not self._in_lane:
            super().complete_request()
            return
        self._in_lane = False
        self._parts.clear()
        self.request_completed(answered=True)

    def request_completed(self, *, answered: bool) -> None:
        """The next one can begin."""
        self._between = True
        super().request_completed(answered=answered)

    def _collect(self) -> None:
        if self._in_lane:
            self._leave()
        super()._collect()

    def _idle(self) -> bool:
        before: RequestResponseCycle | None = self.cycle
        return (before is None or before.response_complete) and not self.flow.write_paused

    def _may_fit(self) -> bool:
        return (
            self._idle()
            and self.url.startswith(_BELOW)
            and not _REST.search(self.url)
            and self._method in _METHODS
            and self.parser.should_keep_alive()
            and not self.expect_100_continue
        )

    def _request(self) -> Request:
        self.scope["method"] = self._method.decode("ascii")
        self.scope["raw_path"] = self.url
        return Request(self.scope, None, next(self.app.ids), b"".join(self._parts))

    def _reply(self, request: Request, response: Response) -> bytes:
        self.server_state.total_requests += 1
        head: bytes = self.app.head(response, request.id, self.server_state.default_headers)
        return STATUS_LINE[response.status] + head + response.body

    def _leave(self) -> None:
        """Hands the request, as far as it has come, over to ASGI."""
        self._in_lane = False
        super().call_application()
