"""What forgets its oldest entries: a bounded dictionary, and the length of the journal of a sandbox."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")

MIN_JOURNAL, JOURNAL_LENGTH, MAX_JOURNAL = 100, 1_000, 20_000
"""How many requests a server can keep of each sandbox; by default, and for a story or coverage, 1,000."""


class BoundedCache(dict[K, V]):
    """At most `size` entries; the one that was stored first goes first. A look-up is that of a dictionary."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._size and key not in self:
            del self[next(iter(self))]
        super().__setitem__(key, value)
