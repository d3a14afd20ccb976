"""One of several servers that share their sockets, each in a process of its own."""

import asyncio
import signal
import socket

import uvicorn

from paymock.server.accept import ConnectionCounts
from paymock.server.supervisor import Post
from paymock.server.uvicorn_server import MetricsListener, Server


class Worker(Server):
    """A server at a post. It ends when it is told to, or when its supervisor has ended."""

    signals = (signal.SIGTERM,)

    def __init__(
        self,
        config: uvicorn.Config,
        post: Post,
        loads: ConnectionCounts,
        beside: MetricsListener | None = None,
    ) -> None:
        super().__init__(config, post.ready, beside, loads, post.number)
        self._post = post

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept its share of the connections, then says so."""
        # Nothing ever comes over the line: all there is to hear is that the other end is gone.
        asyncio.get_running_loop().add_reader(self._post.line, self._left_alone)
        await super().startup(sockets)

    def _signaled(self, number: int, frame: object) -> None:
        """The request to stop may come twice, from the supervisor and from whoever stops all processes."""
        self.stop()

    def _left_alone(self) -> None:
        asyncio.get_running_loop().remove_reader(self._post.line)
        self.stop()
