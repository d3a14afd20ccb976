"""What the URL of a Redis store names: its engines, and how to connect to them."""

from typing import NamedTuple
from urllib.parse import urlsplit

from redis.asyncio import ConnectionPool
from redis.asyncio.connection import AbstractConnection
from redis.asyncio.retry import Retry
from redis.backoff import NoBackoff
from redis.exceptions import RedisError

from paymock.stores.base import StoreError

_DEFAULT_PORT = 6379


class Address(NamedTuple):
    """Where an engine is."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def told(self, host: str, port: int) -> "Address":
        """The address that the engine here speaks of; without a host, or with `?`, it is this host."""
        return Address(self.host if host in ("", "?") else host, port)


class Access:
    """How to connect to any node of the store that a URL names, and the nodes that it names."""

    def __init__(self, url: str) -> None:
        """Raises StoreError, which does not repeat the URL: it may hold a password."""
        scheme, _, rest = url.partition("://")
        authority = rest[: next((at for at, character in enumerate(rest) if character in "/?#"), len(rest))]
        user, at, hosts = authority.rpartition("@")
        names = hosts.split(",") if scheme.endswith("+cluster") else [hosts]
        first = f"{scheme.removesuffix('+cluster')}://{user}{at}{names[0]}{rest.removeprefix(authority)}"
        try:
            parts = [urlsplit(f"//{name}") for name in names]
            self.seeds = [Address(part.hostname or "localhost", part.port or _DEFAULT_PORT) for part in parts]
            pool = ConnectionPool.from_url(first)
            self._class = pool.connection_class
            self._options = {
                **pool.connection_kwargs,
                "health_check_interval": 0,
                "protocol": 2,
                "retry": Retry(NoBackoff(), 0),
                "retry_on_timeout": False,
                "socket_connect_timeout": None,
                "socket_timeout": None,
            }
            self.connection(self.seeds[0])
        except (ValueError, TypeError, RedisError):
            raise StoreError(
                "cannot use the store: its URL has a part that is not understood; known are user, password, "
                "hosts, database and the options of redis-py"
            ) from None

    def connection(self, address: Address) -> AbstractConnection:
        """A connection, not yet open."""
        made: AbstractConnection = self._class(
            **{**self._options, "host": address.host, "port": address.port}
        )
        return made
