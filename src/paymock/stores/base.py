"""The store protocol. A store keeps opaque bytes, and knows neither payments nor HTTP.

With a retention, in seconds of real time, writes delete what was added before that, with its companion, and
whole sandboxes without changes since then, but never the metadata. They may do so later, and in parts.
"""

import time
from collections.abc import AsyncIterator, Callable
from typing import NamedTuple, Protocol

SANDBOX_RECORD = "state"
"""Key of a sandbox's own record, which every change of the sandbox is conditional on."""

METADATA = "origin"
"""The sandbox whose own record is the metadata of the store; no API key leads to it."""

Check = Callable[[bytes], object]
"""Raises StoreError for metadata of a version whose values this one cannot use."""


def companion_key(key: str) -> str:
    """Key of the replaceable value that accompanies the immutable value under `key`, and expires with it."""
    return f"{key}.note"


NO_CLUSTER = (
    "Redis Cluster is not supported: use one engine, redis+sentinel://HOST:PORT,HOST:PORT/SERVICE for a "
    "failover, or, for more load, a proxy that spreads the keys over deployments (docs/deploy.md)"
)

MAX_EMPTY = 1_000
"""Of how many sandboxes without values a store without expiry keeps the logs and counters: of the latest."""

MAX_COUNTERS = 10_000
"""The most counters of a sandbox. Beyond, a new one replaces another."""

STEADY_SECONDS = 600
RetentionClock = Callable[[], float | None]
"""The time in seconds by which a store deletes; None while it may be wrong."""


class StoreError(Exception):
    """A store cannot be used. The message is one line for the terminal."""


class AddResult(NamedTuple):
    """What a store held before an addition: the sandbox record, and the value under the same key."""

    state: bytes | None
    existing: bytes | None


class LogEntries(NamedTuple):
    """What is appended to a log of a sandbox, which retains at least its last `keep` entries."""

    sandbox: str
    log: str
    keep: int
    entries: list[bytes]


Addition = tuple[str, bytes, str]
"""A value that is added to a list: its key, the value, and its kind."""


class Change(NamedTuple):
    """A change by another process, in any sandbox if None. A `minor` one adds to a list or changes a log."""

    sandbox: str | None
    minor: bool = False


def steady_clock(
    wall: Callable[[], float] = time.time, monotonic: Callable[[], float] = time.monotonic
) -> RetentionClock:
    """Return a clock that gives None for STEADY_SECONDS from now on, and after each jump of `wall`."""
    last, since = wall() - monotonic(), monotonic()

    def now() -> float | None:
        nonlocal last, since
        count, time = monotonic(), wall()
        if abs(time - count - last) >= 1:  # less is drift
            since = count
        last = time - count
        return time if count - since >= STEADY_SECONDS else None

    return now


class Store(Protocol):
    """Values under (sandbox, key), lists of them by kind, logs and counters.

    Each method is one atomic step, committed when it returns, and may raise PaymockError `store_unavailable`.
    Connections are opened on first use, on the event loop that uses them.
    """

    propagation_ms: int
    """Milliseconds until a change is visible to every process that shares the store, at most."""

    is_synchronous: bool
    """Whether the coroutines of this store never suspend, so that a second call costs little."""

    @property
    def connections(self) -> int:
        """Number of connections opened so far. When it changes, what was read before may be gone."""

    async def initialize(self, check: Check | None = None) -> str | None:
        """Check that the store can be used, create it if missing, and return a warning for the operator, if
        there is one. `check` gets the metadata that it has before anything is written. Raises StoreError.
        """

    async def add(
        self,
        sandbox: str,
        addition: Addition,
        *,
        expected_state: bytes | None,
        new_state: bytes | None = None,
        limit: int | None = None,
    ) -> AddResult:
        """Store a value and list it under its kind; in the same step, replace the sandbox record by
        `new_state` if given. Nothing changes if the key is taken or that record is not `expected_state`.

        Raises PaymockError `capacity_exceeded` if the sandbox has `limit` of this kind, or the store is full.
        """

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        """Return the values under `keys`, None where there is none."""

    async def replace(
        self,
        sandbox: str,
        key: str,
        old: bytes | None,
        new: bytes,
        *,
        expected_state: bytes | None,
        addition: Addition | None = None,
        if_empty: bool = False,
    ) -> bool:
        """Compare and set: store `new`, and the `addition` in the same step, if the value is still `old`
        (None: missing), the sandbox record is still `expected_state`, and the key of the addition is
        free. Return whether they were stored.

        With `if_empty`, raises PaymockError `sandbox_not_empty` if the sandbox has values in lists.
        """

    async def page(
        self, sandbox: str, kind: str, *, limit: int, before: int | None = None
    ) -> list[tuple[int, bytes]]:
        """Return the newest values of a kind, or those `before` a position, with positions, newest first."""

    async def count(self, sandbox: str, kind: str) -> int:
        """Return the number of values of a kind."""

    async def increment(self, sandbox: str, key: str) -> int:
        """Increment a counter, which starts at 0, and return its new value."""

    async def append(self, *logs: LogEntries) -> None:
        """Append entries to logs, in one step."""

    async def tail(self, sandbox: str, log: str, limit: int) -> list[bytes]:
        """Return the newest entries of a log, newest first."""

    async def clear_log(self, sandbox: str, log: str) -> None:
        """Delete all entries of a log."""

    async def revision(self, sandbox: str, log: str) -> tuple[bytes | None, bytes]:
        """Return the sandbox record, and what differs after each change of the sandbox's values and of a log.
        It may be as before if both are, after a reset, and after what the retention deletes.
        """

    async def reset(self, sandbox: str, new_state: bytes, *, expected_state: bytes | None) -> bool:
        """Delete everything of the sandbox and set its own record to `new_state`, if that record is still
        `expected_state`. Return whether it was.
        """

    async def ping(self) -> None:
        """Check that the store responds, can be read and written, and has room."""

    async def time(self) -> int | None:
        """Return the time by the clock of the store, in milliseconds since the epoch; None if it has none."""

    def changes(self) -> AsyncIterator[Change]:
        """Yield the changes that other processes make from now on, and perhaps those of this one."""

    async def close(self) -> None:
        """Close the connections of this event loop. The next call opens new ones."""
