"""The fast path: simple requests are answered in the callbacks of the parser, without the task and the
messages of ASGI. All others go to ASGI, unchanged.
"""

import re
from typing import Any

from uvicorn.protocols.http.httptools_impl import RequestResponseCycle

from paymock.web.http.requests import MAX_BODY, Body, parse_request
from paymock.web.http.routing import PUBLIC, Answer
from paymock.web.transport.protocol import StrictHttpProtocol

_PREFIX = PUBLIC.encode()
_QUERY_OR_FRAGMENT = re.compile(b"[?#]")
_METHODS = (b"GET", b"POST")


class FastPathProtocol(StrictHttpProtocol):
    """The strict protocol with a fast path for requests below `/v1` that need not wait for anything."""

    def __init__(self, *args: Any, **kwargs: Any) -> None:
        super().__init__(*args, **kwargs)
        self._on_fast_path = False
        self._completed = 0  # requests that the current data has completed
        self._last_answer: Answer | None = None  # of the fast path to the current data

    def data_received(self, data: bytes) -> None:
        """Answer a request whose bytes are cached; parse any other."""
        state = self._transport_state
        at_start = self._at_start
        cached = state.request_cache.find(data) if at_start and self._idle() else None
        if cached is not None and (answer := self.app.answer_now(cached.request, cached)) is not None:
            state.write_batch.add(self.transport, self._encode(answer))
            self.request_completed(answered=True)
            if answer.response.replayed:
                state.request_cache.add(data, cached, answer.response)
            return
        state.write_batch.flush()  # the next reply must not overtake these
        self._completed, self._last_answer = 0, None
        super().data_received(data)
        if self._on_fast_path and self._refusal is None:
            self._leave_fast_path()
        single = at_start and self._at_start and self._completed == 1
        answer = self._last_answer
        if single and answer is not None and answer.routed is not None:
            state.request_cache.add(data, answer.routed, answer.response)

    def call_application(self) -> None:
        """Keep a simple request on the fast path until its body is complete."""
        self._on_fast_path = self._is_simple()
        if not self._on_fast_path:
            super().call_application()

    def complete_request(self) -> None:
        """Answer the complete request, or hand it over to ASGI."""
        self._completed += 1
        if self._on_fast_path:
            answer = self._answer()
            if answer is None:
                self._leave_fast_path()
            else:
                self.transport.write(self._encode(answer))
                self._last_answer = answer
        if not self._on_fast_path:
            super().complete_request()
            return
        self._on_fast_path = False
        self._body_parts.clear()
        self.request_completed(answered=True)

    def _append_body(self) -> None:
        if self._on_fast_path:
            self._leave_fast_path()
        super()._append_body()

    @property
    def _at_start(self) -> bool:
        """Whether the next byte is the first one of a request."""
        return self._in_head and not self._head and self._refusal is None

    def _idle(self) -> bool:
        previous: RequestResponseCycle | None = self.cycle
        return (previous is None or previous.response_complete) and not self.flow.write_paused

    def _is_simple(self) -> bool:
        return (
            self._idle()
            and self.url.startswith(_PREFIX)
            and not _QUERY_OR_FRAGMENT.search(self.url)
            and self._method in _METHODS
            and self.parser.should_keep_alive()
            and not self.expect_100_continue
        )

    def _answer(self) -> Answer | None:
        content = b"".join(self._body_parts)
        if len(content) > MAX_BODY:
            return None
        request = parse_request(
            self._method.decode("ascii"), self.url, [*self.scope["headers"]], Body(content)
        )
        answer: Answer | None = self.app.answer_now(request)
        return answer

    def _encode(self, answer: Answer) -> bytes:
        self.server_state.total_requests += 1
        return self.encode_response(answer.response, answer.headers)

    def _leave_fast_path(self) -> None:
        """Hand over to ASGI what has been received of the request."""
        self._on_fast_path = False
        super().call_application()
