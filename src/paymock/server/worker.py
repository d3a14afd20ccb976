"""The server of a worker process, which shares its sockets with other workers."""

import asyncio
import signal
import socket

import uvicorn

from paymock.server.accept import ConnectionCounts
from paymock.server.supervisor import WorkerSlot
from paymock.server.uvicorn_server import MetricsListener, Server


class Worker(Server):
    """A server that reports to a supervisor. It stops on SIGTERM, or when its supervisor has ended."""

    signals = (signal.SIGTERM,)

    def __init__(
        self,
        config: uvicorn.Config,
        slot: WorkerSlot,
        counts: ConnectionCounts,
        metrics_listener: MetricsListener | None = None,
    ) -> None:
        super().__init__(config, slot.send_ready, metrics_listener, counts, slot.number)
        self._pipe = slot.pipe

    async def startup(self, sockets: list[socket.socket] | None = None) -> None:
        # The supervisor sends nothing, so the pipe becomes readable only when its other end is closed.
        asyncio.get_running_loop().add_reader(self._pipe, self._on_supervisor_exit)
        await super().startup(sockets)

    def _handle_signal(self, number: int, frame: object) -> None:
        """Stop. A second signal is no reason to exit at once: one may come from the supervisor, and one from
        whoever signals the process group.
        """
        self.stop()

    def _on_supervisor_exit(self) -> None:
        asyncio.get_running_loop().remove_reader(self._pipe)
        self.stop()
