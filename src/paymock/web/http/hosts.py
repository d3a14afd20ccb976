"""The hosts that the server answers to: a guard against DNS rebinding."""

import re
from functools import lru_cache

from paymock.rules.errors import PaymockError
from paymock.settings import Settings
from paymock.web.http.requests import Request

_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]")
_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{0,5})?")


@lru_cache(maxsize=256)  # clients name few hosts, with every request
def _host_in(header: str) -> str | None:
    """The host, without the port, in a Host header; None when it is not valid."""
    match = _HOST.fullmatch(header)
    return match[1].lower() if match else None


class AllowedHosts:
    """Knows which hosts the server answers to."""

    def __init__(self, settings: Settings) -> None:
        own = [f"[{settings.host}]" if ":" in settings.host else settings.host] if settings.host else []
        named = [*_LOOPBACK_HOSTS, *own, *settings.allowed_hosts]
        self._allowed = {host.lower() for host in named}
        self._probes = () if settings.on_loopback else ("/livez", "/readyz")
        self._any = not settings.on_loopback and not settings.allowed_hosts

    def check(self, request: Request) -> None:
        """Raises PaymockError `bad_request` without exactly one valid Host header, `misdirected_request`
        when it names a host that the server does not answer to. Beyond loopback, probes may name any: they
        ask an address.
        """
        try:
            host = _host_in(request.header(b"host") or "")
        except ValueError:
            raise PaymockError("bad_request", "The Host header was sent twice.") from None
        if host is None:
            raise PaymockError("bad_request", "The Host header is missing or not a valid host.")
        if not self._any and host not in self._allowed and request.path not in self._probes:
            raise PaymockError("misdirected_request")
