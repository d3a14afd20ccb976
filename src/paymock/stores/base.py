"""What every store promises. Stores hold opaque bytes and know no time, no payment and no HTTP."""

from collections.abc import AsyncIterator
from typing import NamedTuple, Protocol

STATE = "state"
"""The key of a sandbox's own record, which every change of the sandbox goes by."""


def companion_key(key: str) -> str:
    """The key of the replaceable value that belongs to the lasting one under `key`, and is forgotten with
    it.
    """
    return f"{key}.note"


class StoreError(Exception):
    """A store cannot be used; the message is one line for the person at the terminal."""


class AddResult(NamedTuple):
    """What an addition found: the sandbox's own record, and the value that had its key before."""

    state: bytes | None
    existing: bytes | None


class Change(NamedTuple):
    """What another process has changed: a sandbox, or None when it may be any; `minor` when something was
    merely added, to a list or a log.
    """

    sandbox: str | None
    minor: bool = False


class Store(Protocol):
    """Bytes under (sandbox, key), lists of them by kind, logs and counters.

    Every method is one atomic step and may raise PaymockError `store_unavailable`. When it returns, what it
    changed is committed. A store opens its connections when they are needed first, on the event loop that
    needs them.
    """

    propagation_ms: int
    """How many milliseconds a change may take until every process that shares the store sees it."""

    never_suspends: bool
    """Whether every method returns without a pause: asking twice then costs next to nothing."""

    @property
    def connections(self) -> int:
        """How often it has connected to where the values are: what was read over an earlier connection may
        be gone.
        """

    async def initialize(self) -> str | None:
        """Makes sure that the store can be used, and answers with what its operator should know about it, if
        there is anything. Raises StoreError.
        """

    async def add(
        self,
        sandbox: str,
        key: str,
        value: bytes,
        *,
        kind: str,
        expected_state: bytes | None,
        new_state: bytes | None = None,
        limit: int | None = None,
    ) -> AddResult:
        """Stores `value`, listed under `kind`, unless its key is taken or the sandbox's own record is no
        longer `expected_state`; with it, replaces that record by `new_state`. Otherwise nothing changes.

        Raises PaymockError `capacity_exceeded` when the sandbox already has `limit` values of this kind, or
        the store has no room.
        """

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        """The values under `keys`, each or None."""

    async def replace(
        self, sandbox: str, key: str, old: bytes | None, new: bytes, *, expected_state: bytes | None
    ) -> bool:
        """Stores `new` if the value is still `old` (None: there is none) and the sandbox's own record is
        still `expected_state`, and says whether it did.
        """

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        """The newest values of a kind with their positions, newest first; `before` goes on from a
        position.
        """

    async def increment(self, sandbox: str, key: str) -> int:
        """How often this has been called for `key`, this call included."""

    async def append(self, sandbox: str, log: str, entry: bytes, *, keep: int) -> None:
        """Adds `entry` to a log of which at least the last `keep` entries are kept."""

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        """The newest entries of a log, newest first."""

    async def clear_log(self, sandbox: str, log: str) -> None:
        """Forgets the entries of a log."""

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        """Deletes everything of the sandbox and sets its own record to `new_state`, if that record is still
        `expected_state`. Returns whether it was.
        """

    async def ping(self) -> None:
        """Returns when the store answers."""

    def changes(self) -> AsyncIterator[Change]:
        """What other processes change from now on."""

    async def close(self) -> None:
        """Ends the connections of this event loop; the next call opens new ones."""
