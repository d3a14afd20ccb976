"""Replies on their way out. Those to requests that have come together go out together, when all are answered:
each that went out before would wake its reader first, which takes a tenth of the time of a creation.
"""

import asyncio


class WriteBatch:
    """Replies that have not gone out yet."""

    def __init__(self) -> None:
        self._waiting: list[tuple[asyncio.WriteTransport, bytes]] = []

    def add(self, transport: asyncio.WriteTransport, reply: bytes) -> None:
        """One more, which goes out at the end of this round of the event loop."""
        if not self._waiting:
            asyncio.get_running_loop().call_soon(self.empty)
        self._waiting.append((transport, reply))

    def empty(self) -> None:
        """All of them go out now."""
        waiting, self._waiting = self._waiting, []
        for transport, reply in waiting:
            try:
                transport.write(reply)
            except RuntimeError:  # it has been ended: those that follow get theirs
                continue
