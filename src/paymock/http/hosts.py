"""The hosts that the server answers to, against DNS rebinding."""

import re

from paymock.cache import BoundedCache
from paymock.http.headers import MAX_CACHED_LENGTH, sent_once
from paymock.http.requests import Request
from paymock.rules.errors import PaymockError
from paymock.settings import Address

_LOOPBACK_HOSTS = ("localhost", "127.0.0.1", "[::1]", "host.docker.internal")
"""No DNS server of an attacker answers for any of them."""

_HOST = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[A-Za-z0-9._~-]+)(?::[0-9]{0,5})?")

_CACHED_HOSTS = 256


class AllowedHosts:
    """The hosts that the server accepts in the Host header."""

    def __init__(self, address: Address) -> None:
        bound = [f"[{address.host}]" if ":" in address.host else address.host] if address.host else []
        self._allowed = {host.lower() for host in (*_LOOPBACK_HOSTS, *bound, *address.allowed_hosts)}
        self._health_checks = () if address.on_loopback else ("/livez", "/readyz")
        self._allow_any = not address.on_loopback and not address.allowed_hosts
        self.accepted: BoundedCache[bytes, bool] = BoundedCache(_CACHED_HOSTS)

    def check(self, request: Request) -> None:
        """Check the Host header. Health checks beyond loopback may name any host: they connect to an address.

        Raises PaymockError `bad_request` without exactly one valid Host header, which HTTP/1.0 need not have,
        and `misdirected_request` if the host is not allowed.
        """
        value = request.headers.get(b"host", b"")
        if not request.is_current and b"host" not in request.headers:
            return  # RFC 9112, 3.2; every browser sends one
        if value in self.accepted and b"host" not in request.repeated:
            return
        match = _HOST.fullmatch(sent_once(request, b"host", "bad_request") or "")
        if match is None:
            raise PaymockError("bad_request", "The Host header is missing or not a valid host.")
        if self._allow_any or match[1].lower() in self._allowed:
            if len(value) <= MAX_CACHED_LENGTH:
                self.accepted[value] = True
        elif request.path not in self._health_checks:
            raise PaymockError("misdirected_request")
