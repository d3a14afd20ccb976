"""One of several servers that share their sockets, each in a process of its own."""

import asyncio
import signal
import socket

import uvicorn

from paymock.serving import Server
from paymock.sharing import Acceptor, Loads
from paymock.supervisor import Post
from paymock.web.protocol import GuardedProtocol


class Worker(Server):
    """A server at a post. It ends when it is told to, or when its supervisor has ended."""

    signals = (signal.SIGTERM,)

    def __init__(self, config: uvicorn.Config, post: Post, loads: Loads) -> None:
        super().__init__(config, post.ready)
        self._post = post
        self._loads = loads
        self._acceptor: Acceptor | None = None

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        """Starts to accept its share of the connections, then says so."""
        # Nothing ever comes over the line: all there is to hear is that the other end is gone.
        asyncio.get_running_loop().add_reader(self._post.line, self._left_alone)
        self._acceptor = Acceptor(
            self._loads, self._post.number, self._protocol, lambda: len(self.server_state.connections)
        )
        self._acceptor.open(sockets or ())
        await super().startup([])

    async def on_tick(self, counter: int) -> bool:
        """Ten times a second: whether it is time to stop. Tells of connections that have ended, too."""
        if self._acceptor is not None:
            self._acceptor.tell()
        return await super().on_tick(counter)

    async def shutdown(self, sockets: list[socket.socket] | None = None) -> None:
        """Accepts no more, then ends like any server."""
        if self._acceptor is not None:
            await self._acceptor.close()
        await super().shutdown(sockets)

    def _signaled(self, number: int, frame: object) -> None:
        """The request to stop may come twice, from the supervisor and from whoever stops all processes."""
        self.stop()

    def _left_alone(self) -> None:
        asyncio.get_running_loop().remove_reader(self._post.line)
        self.stop()

    def _protocol(self) -> asyncio.Protocol:
        return GuardedProtocol(
            config=self.config, server_state=self.server_state, app_state=self.lifespan.state
        )
