"""From a store's URL to the store. Nothing of the URL but its scheme is repeated: it may hold a password."""

import re
from collections.abc import Mapping
from pathlib import Path
from urllib.parse import parse_qsl, unquote

from paymock.stores.base import Store, StoreError
from paymock.stores.memory import MemoryStore

SYNCHRONOUS = ("full", "normal")
_SCHEME = re.compile("[a-z+]{1,20}")
REDIS = ("redis", "rediss", "redis+cluster", "rediss+cluster")


def scheme_of(url: str) -> str:
    """What kind of store is at `url`."""
    return url.partition("://")[0]


def open_store(url: str, *, limits: Mapping[str, int] | None = None, retention: int | None = None) -> Store:
    """The store at `url`, not yet connected. `limits` says how many values of a kind it has room for, in all
    sandboxes together; after `retention` seconds a Redis store may delete what was created.

    Raises StoreError when the URL is not one of a store, or what the store needs is not installed.
    """
    scheme, rest = scheme_of(url), url.partition("://")[2]
    if scheme == "memory" and not rest:
        return MemoryStore(limits)
    if scheme == "sqlite" and rest.partition("?")[0]:
        path, _, query = rest.partition("?")
        options = dict(parse_qsl(query, keep_blank_values=True))
        synchronous = options.pop("synchronous", SYNCHRONOUS[0]).lower()
        if options or synchronous not in SYNCHRONOUS:
            raise StoreError("an SQLite store knows one option: synchronous=full or synchronous=normal")
        from paymock.stores.sqlite.store import SqliteStore  # the in-memory store needs no thread and no file

        return SqliteStore(Path(unquote(path)), synchronous, limits or {})
    if scheme in REDIS and rest:
        try:
            from paymock.stores.redis.store import RedisStore
        except ImportError:
            raise StoreError("a Redis store needs the extra: pip install 'paymock[redis]'") from None
        return RedisStore(url, retention)
    named = f"unknown store {scheme!r}" if _SCHEME.fullmatch(scheme) and "://" in url else "unknown store"
    raise StoreError(
        f"{named}: known are memory://, sqlite:///path/file.db, redis://, rediss://, redis+cluster://"
    )
