"""The health checks."""

import httpx
import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.memory import MemoryStore
from paymock.web.api import health
from paymock.web.http.requests import Body, Request
from tests.support.server import RunningServer
from tests.support.use_cases import UseCases
from tests.support.virtual_time import run

REQUEST = Request("GET", "/", {}, Body(b""))


class UnreachableStore(MemoryStore):
    """A store that does not answer."""

    async def ping(self) -> None:
        raise PaymockError("store_unavailable")


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_a_health_check_needs_no_key(server: RunningServer, path: str) -> None:
    reply = httpx.get(server.url + path)
    assert (reply.status_code, reply.json()) == (200, {"status": "ok"})


def test_a_server_without_its_store_is_alive_and_not_ready() -> None:
    service = UseCases(UnreachableStore()).service
    assert run(health.livez(service, REQUEST)).status == 200
    with pytest.raises(PaymockError) as refused:
        run(health.readyz(service, REQUEST))
    assert refused.value.kind.code == "store_unavailable"
