"""The URL of a Redis store: the addresses of its nodes, and the options of their connections."""

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
    """The host and port of a node."""

    host: str
    port: int

    def __str__(self) -> str:
        return f"[{self.host}]:{self.port}" if ":" in self.host else f"{self.host}:{self.port}"

    def resolve(self, host: str, port: int) -> "Address":
        """Return an address that the node here reports; an empty host, or `?`, stands for its own."""
        return Address(self.host if host in ("", "?") else host, port)


class Access:
    """The nodes that the URL of a store names, and how to connect to any of its nodes.

    Raises StoreError, which does not repeat the URL: it may hold a password.
    """

    def __init__(self, url: str) -> None:
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
                "cannot use the store: its URL is not valid; it may have user, password, "
                "hosts, database and the options of redis-py"
            ) from None

    def connection(self, address: Address) -> AbstractConnection:
        """Return a connection that is not open yet."""
        connection: AbstractConnection = self._class(
            **{**self._options, "host": address.host, "port": address.port}
        )
        return connection
