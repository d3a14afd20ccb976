"""Who waits for a change of a sandbox, whichever process makes it."""

import asyncio
from collections import defaultdict
from collections.abc import Iterator
from contextlib import contextmanager, suppress

from paymock.rules.errors import PaymockError
from paymock.stores.base import Store

GAP_SECONDS = 0.25
"""The least time between two looks of a follower: what happens in between is told together."""

RESYNC_SECONDS = 20.0
"""How often followers are told the time while nothing changes: a clock that a page only counts drifts."""

_LISTEN_AGAIN = 0.2
"""Seconds until a store that has failed is listened to again."""


class TimedEvent(asyncio.Event):
    """An event that can be waited for until a certain moment."""

    async def until(self, moment: float) -> None:
        """Returns when it is set, or at `moment` by the clock of the event loop."""
        with suppress(TimeoutError):
            async with asyncio.timeout_at(moment):  # `wait_for` can miss that its caller is cancelled
                await self.wait()


class Watch(TimedEvent):
    """Set at each change of a sandbox; when watching `closely`, also when something is merely added: a
    resource, a request in the journal.
    """

    def __init__(self, *, closely: bool) -> None:
        super().__init__()
        self.closely = closely


class Watched:
    """The sandboxes of a store, to those who wait for a change of one."""

    def __init__(self, store: Store) -> None:
        self.store = store
        self._watching: defaultdict[str, set[Watch]] = defaultdict(set)
        self._listening: asyncio.Task[None] | None = None
        self._stopped = TimedEvent()

    def wake(self, sandbox: str | None, *, minor: bool = False) -> None:
        """Tells everybody who watches this sandbox, or any if it is None, that something has changed; only
        those who watch closely when the change is `minor`.
        """
        if not self._watching:
            return
        for watched in [*self._watching] if sandbox is None else [sandbox]:
            for watch in self._watching.get(watched, ()):
                if watch.closely or not minor:
                    watch.set()

    @property
    def watchers(self) -> int:
        """How many wait for a change."""
        return sum(map(len, self._watching.values()))

    @property
    def stopping(self) -> bool:
        """Whether the server stops."""
        return self._stopped.is_set()

    def stop(self) -> None:
        """Tells everybody who waits that the server stops."""
        self._stopped.set()
        self.wake(None)

    async def rest(self, moment: float) -> None:
        """Returns at `moment` by the clock of the event loop, or when the server stops."""
        await self._stopped.until(moment)

    @contextmanager
    def watch(self, sandbox: str, *, closely: bool = False) -> Iterator[Watch]:
        """A watch on the sandbox for the length of the block, whichever process changes it."""
        changed = Watch(closely=closely)
        self._watching[sandbox].add(changed)
        if self._listening is None:
            self._listening = asyncio.create_task(self._listen())
        try:
            yield changed
        finally:
            self._watching[sandbox].discard(changed)
            if not self._watching[sandbox]:
                del self._watching[sandbox]
            if not self._watching:
                self._listening.cancel()
                self._listening = None

    async def _listen(self) -> None:
        while True:
            with suppress(PaymockError):
                async for change in self.store.changes():
                    self.wake(change.sandbox, minor=change.minor)
                return  # nobody else changes anything
            self.wake(None)
            await asyncio.sleep(_LISTEN_AGAIN)
