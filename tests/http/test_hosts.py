"""Host names that a server answers to."""

import pytest

from paymock.settings import Settings
from tests.support import raw
from tests.support.server import RunningServer, running_server

KEYS = ("key-of-the-first-merchant", "key-of-the-second-merchant")


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "localhost:1", "127.0.0.1:8402"]
)
def test_a_server_on_loopback_answers_to_its_names(shared_server: RunningServer, host: str) -> None:
    assert status(shared_server, host) == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example", "[::2]", "10.0.0.1", "localhost."]
)
def test_a_server_on_loopback_answers_to_no_other_name(shared_server: RunningServer, host: str) -> None:
    [reply] = raw.exchange(shared_server.port, raw.request("GET", "/livez", host=host))
    assert (reply.status, reply.code) == (421, "misdirected_request")


def test_further_hosts_can_be_allowed() -> None:
    with running_server(Settings(port=0, allowed_hosts=("Sandbox.Example",))) as server:
        statuses = [status(server, host) for host in ("sandbox.example", "localhost", "other.example")]
    assert statuses == [200, 200, 421]


def test_a_server_bound_elsewhere_answers_to_any_host() -> None:
    with running_server(Settings(host="0.0.0.0", port=0, api_keys=KEYS)) as server:
        assert status(server, "any.example") == 200


def test_a_server_bound_elsewhere_that_is_told_its_hosts_answers_to_no_other_but_for_probes() -> None:
    named = Settings(host="0.0.0.0", port=0, api_keys=KEYS, allowed_hosts=("sandbox.example",))
    with running_server(named) as server:
        assert status(server, "any.example", "/openapi.yaml") == 421
        assert [status(server, "10.0.0.11:8402", path) for path in ("/livez", "/readyz")] == [200, 200]


def status(server: RunningServer, host: str, path: str = "/livez") -> int:
    [reply] = raw.exchange(server.port, raw.request("GET", path, host=host))
    return reply.status
