"""Create the store that a URL names. Messages repeat only its scheme: it may hold a password."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from paymock.stores.base import NO_CLUSTER, Store, StoreError
from paymock.stores.memory import MemoryStore

_SYNCHRONOUS = ("full", "normal")
_SCHEME = re.compile("[a-z+]{1,20}")
_REDIS_SCHEMES = ("redis", "rediss", "redis+sentinel", "rediss+sentinel")


def sqlite_path(url: str) -> Path:
    """The absolute path of the file of an SQLite store: `sqlite:///` begins an absolute path in the URL, and
    `sqlite:` one that is relative to the working directory.
    """
    path = unquote(url.partition(":")[2].partition("?")[0]).removeprefix("//")
    return Path(re.sub("^/+", "/", path)).absolute()


def open_store(
    url: str, *, limits: Mapping[str, int | None] | None = None, retention: int | None = None
) -> Store:
    """Return the store at `url`, not yet connected. `limits` caps the number of values of a kind over all
    sandboxes (in memory and SQLite); after `retention` seconds SQLite and Redis may delete what was created.

    Raises StoreError if the URL is not that of a store, or what the store requires is not installed.
    """
    scheme, separator, rest = url.partition("://")
    location, _, query = url.partition("?")
    if location.startswith("sqlite:") and location not in ("sqlite:", "sqlite://"):
        options = dict(parse_qsl(query, keep_blank_values=True))
        synchronous = options.pop("synchronous", _SYNCHRONOUS[0]).lower()
        if options or synchronous not in _SYNCHRONOUS:
            raise StoreError("an SQLite store has one option: synchronous=full or synchronous=normal")
        path = sqlite_path(url)
        if not path.name:
            raise StoreError(
                "an SQLite store needs a file: sqlite:file.db or sqlite:///absolute/path/file.db"
            )
        from paymock.stores.sqlite.store import SqliteStore  # the in-memory store needs no sqlite3

        return SqliteStore(path, synchronous, limits, retention)
    if scheme == "memory" and not rest:
        return MemoryStore(limits)
    if scheme in _REDIS_SCHEMES and rest:
        try:
            from paymock.stores.redis.store import RedisStore
        except ImportError:
            raise StoreError("a Redis store requires the extra: pip install 'paymock[redis]'") from None
        return RedisStore(url, retention)
    if scheme.endswith("+cluster"):
        raise StoreError(NO_CLUSTER)
    name = f" {scheme!r}" if separator and _SCHEME.fullmatch(scheme) else ""
    raise StoreError(
        f"unknown store{name}: use memory://, sqlite:file.db, sqlite:///absolute/path/file.db, redis://, "
        "rediss://, redis+sentinel:// or rediss+sentinel://"
    )
