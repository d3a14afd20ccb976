"""Allowed hosts: protection against DNS rebinding."""

import re
from functools import lru_cache

from paymock.rules.errors import PaymockError
from paymock.settings import Settings
from paymock.web.http.requests import Request

_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{0,5})?")


@lru_cache(maxsize=256)  # clients use few hosts, and send one with every request
def _host_in(header: str) -> str | None:
    """Return the host of a Host header without the port, or None if it is not valid."""
    match = _HOST.fullmatch(header)
    return match[1].lower() if match else None


class AllowedHosts:
    """The hosts that the server accepts in the Host header."""

    def __init__(self, settings: Settings) -> None:
        bound = [f"[{settings.host}]" if ":" in settings.host else settings.host] if settings.host else []
        self._allowed = {host.lower() for host in (*_LOOPBACK_HOSTS, *bound, *settings.allowed_hosts)}
        self._health_checks = () if settings.on_loopback else ("/livez", "/readyz")
        self._allow_any = not settings.on_loopback and not settings.allowed_hosts

    def check(self, request: Request) -> None:
        """Check the Host header. Health checks beyond loopback may name any host: they connect to an address.

        Raises PaymockError `bad_request` without exactly one valid Host header, and `misdirected_request` if
        the host is not allowed.
        """
        try:
            host = _host_in(request.header(b"host") or "")
        except ValueError:
            raise PaymockError("bad_request", "The Host header was sent twice.") from None
        if host is None:
            raise PaymockError("bad_request", "The Host header is missing or not a valid host.")
        if not self._allow_any and host not in self._allowed and request.path not in self._health_checks:
            raise PaymockError("misdirected_request")
