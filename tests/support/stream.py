"""A client of server-sent events: it reads in a thread, and a test waits for what comes, or for the end."""

import json
import queue
import socket
import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress

import httpx

from harness.polling import wait_until
from tests.support.contract import Json


class Stream:
    """What a stream has told so far. `status` and `headers` are those of the reply."""

    def __init__(self, response: httpx.Response) -> None:
        self.status = response.status_code
        self.headers = response.headers
        self._events: queue.Queue[Json] = queue.Queue()
        self._thread = threading.Thread(target=self._read, args=(response,), daemon=True)
        self._thread.start()

    def next(self, seconds: float = 10) -> Json:
        """The next event, which comes within so many seconds. Raises queue.Empty."""
        return self._events.get(timeout=seconds)

    def so_far(self) -> list[Json]:
        """The events that have come and were not taken yet."""
        return [self._events.get_nowait() for _ in range(self._events.qsize())]

    @property
    def ended(self) -> bool:
        """Whether the server has ended it, or the connection is gone."""
        return not self._thread.is_alive()

    def wait_for_end(self, seconds: float = 10) -> None:
        """Returns when it has ended, within so many seconds."""
        wait_until(lambda: self.ended, seconds)

    def _read(self, response: httpx.Response) -> None:
        try:
            for line in response.iter_lines():
                if line.startswith("data: "):
                    self._events.put(json.loads(line.removeprefix("data: ")))
        except (httpx.TransportError, httpx.StreamError):
            return


@contextmanager
def following(url: str, headers: Mapping[str, str] | None = None) -> Iterator[Stream]:
    """The events of `url`, until the block ends; the client then leaves."""
    with httpx.Client(timeout=30) as client, client.stream("GET", url, headers=headers) as response:
        connection: socket.socket = response.extensions["network_stream"].get_extra_info("socket")
        stream = Stream(response)
        try:
            yield stream
        finally:
            # Closing does not end what another thread reads from.
            with suppress(OSError):
                connection.shutdown(socket.SHUT_RDWR)
            stream.wait_for_end()
