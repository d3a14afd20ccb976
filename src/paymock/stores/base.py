"""What every store promises. Stores hold opaque bytes and know no time, no payment and no HTTP."""

from typing import Protocol


class Store(Protocol):
    """Bytes under (sandbox, key). Each value belongs to a kind, and the values of a kind can be listed.

    Every method may raise PaymockError `store_unavailable`.
    """

    secret: bytes
    """Identifiers are derived from it; it lives as long as the values do. At most 64 bytes."""

    async def add(
        self, sandbox: str, key: str, value: bytes, *, kind: str, limit: int | None = None
    ) -> bytes | None:
        """Stores `value` unless `key` is taken, in one atomic step, and returns the value that was there
        before.

        `None` means that `value` is now stored, and committed. Raises PaymockError `capacity_exceeded`
        when the sandbox already has `limit` values of this kind.
        """

    async def get(self, sandbox: str, key: str) -> bytes | None:
        """The value under `key`, or None."""

    async def list(self, sandbox: str, kind: str) -> list[bytes]:
        """The values of a kind, oldest first."""

    async def ping(self) -> None:
        """Returns when the store answers."""
