"""What every store promises. Stores hold opaque bytes and know no time, no payment and no HTTP."""

from typing import Protocol


class Store(Protocol):
    """Bytes under (sandbox, key), lists of them by kind, logs and counters.

    Every method is one atomic step and may raise PaymockError `store_unavailable`. When it returns, what it
    changed is committed.
    """

    secret: bytes
    """Identifiers are derived from it; it lives as long as the values do. At most 64 bytes."""

    born: int
    """When the store began, in milliseconds since the epoch: where virtual time starts to differ from real
    time.
    """

    async def add(
        self, sandbox: str, key: str, value: bytes, *, kind: str, limit: int | None = None
    ) -> bytes | None:
        """Stores `value` unless `key` is taken, and returns the value that was there before, or None.

        The value is listed under `kind`. Raises PaymockError `capacity_exceeded` when the sandbox already has
        `limit` values of this kind.
        """

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        """The values under `keys`, each or None."""

    async def replace(self, sandbox: str, key: str, old: bytes | None, new: bytes) -> bool:
        """Stores `new` if the value is still `old` (None: there is none), and says whether it was."""

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        """The newest values of a kind with their positions, newest first; `before` goes on from a
        position.
        """

    async def count(self, sandbox: str, key: str) -> int:
        """How often this has been called for `key`, this call included."""

    async def append(self, sandbox: str, log: str, entry: bytes, *, keep: int) -> None:
        """Adds `entry` to a log of which the last `keep` entries are kept."""

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        """The newest entries of a log, newest first."""

    async def clear_log(self, sandbox: str, log: str) -> None:
        """Forgets the entries of a log."""

    async def reset(self, sandbox: str, key: str, value: bytes) -> None:
        """Forgets everything of the sandbox and stores `value` under `key`."""

    async def ping(self) -> None:
        """Returns when the store answers."""
