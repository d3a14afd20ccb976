"""API keys of which each serves one sandbox at a time."""

import os
import sys
import tempfile
import weakref
from collections.abc import Iterable

if sys.platform != "win32":  # which has no fork
    import fcntl


class ApiKeyPool:
    """API keys that are taken by one thread at a time, of this process or of those that it forks. A process
    that ends, however, returns its keys.
    """

    def __init__(self, api_keys: Iterable[str]) -> None:
        self._keys = list(dict.fromkeys(api_keys))
        self._taken: dict[tuple[int, str], object] = {}  # by process
        if self._keys:
            # A process locks one byte of this file for each of its keys.
            self._file = tempfile.TemporaryFile()  # noqa: SIM115 - it lives as long as the pool
            weakref.finalize(self, self._file.close)

    def __bool__(self) -> bool:
        return bool(self._keys)

    def take(self) -> str:
        """Return a key that is free. Raises RuntimeError when all are in use."""
        for key in self._keys:
            claim = object()
            if self._taken.setdefault((os.getpid(), key), claim) is claim:
                if self._lock(key):
                    return key
                del self._taken[os.getpid(), key]
        raise RuntimeError("every configured API key is in use; a key serves one sandbox at a time")

    def release(self, key: str) -> None:
        """Return a key, if this process has taken it."""
        if (os.getpid(), key) in self._taken:
            self._unlock(key)
            del self._taken[os.getpid(), key]

    if sys.platform == "win32":

        def _lock(self, key: str) -> bool:
            return True

        def _unlock(self, key: str) -> None:
            pass

    else:

        def _lock(self, key: str) -> bool:
            try:
                fcntl.lockf(self._file, fcntl.LOCK_EX | fcntl.LOCK_NB, 1, self._keys.index(key))
            except BlockingIOError:
                return False
            return True

        def _unlock(self, key: str) -> None:
            fcntl.lockf(self._file, fcntl.LOCK_UN, 1, self._keys.index(key))
