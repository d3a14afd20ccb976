"""A bounded cache: a dictionary that forgets its oldest entry when it is full."""

from typing import TypeVar

K = TypeVar("K")
V = TypeVar("V")


class BoundedCache(dict[K, V]):
    """At most `size` entries; the one that was stored first goes first. A look-up is that of a dictionary."""

    def __init__(self, size: int) -> None:
        super().__init__()
        self._size = size

    def __setitem__(self, key: K, value: V) -> None:
        if len(self) >= self._size and key not in self:
            del self[next(iter(self))]
        super().__setitem__(key, value)
