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
    [reply] = raw.exchange(shared_server.port, raw.request("GET", "/livez", host=host))
    assert reply.status == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example", "[::2]", "10.0.0.1", "localhost."]
)
def test_a_server_on_loopback_answers_to_no_other_name(shared_server: RunningServer, host: str) -> None:
    [reply] = raw.exchange(shared_server.port, raw.request("GET", "/livez", host=host))
    assert (reply.status, reply.code) == (421, "misdirected_request")


def test_further_hosts_can_be_allowed() -> None:
    with running_server(Settings(port=0, allowed_hosts=("Sandbox.Example",))) as server:
        statuses = [
            raw.exchange(server.port, raw.request("GET", "/livez", host=host))[0].status
            for host in ("sandbox.example", "localhost", "other.example")
        ]
    assert statuses == [200, 200, 421]


def test_a_server_bound_elsewhere_answers_to_any_host_unless_told_which() -> None:
    with running_server(Settings(host="0.0.0.0", port=0, api_keys=KEYS)) as server:
        [reply] = raw.exchange(server.port, raw.request("GET", "/livez", host="any.example"))
        assert reply.status == 200
    named = Settings(host="0.0.0.0", port=0, api_keys=KEYS, allowed_hosts=("sandbox.example",))
    with running_server(named) as server:
        [reply] = raw.exchange(server.port, raw.request("GET", "/openapi.yaml", host="any.example"))
        assert reply.status == 421


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_a_server_bound_elsewhere_answers_probes_of_its_address(path: str) -> None:
    named = Settings(host="0.0.0.0", port=0, api_keys=KEYS, allowed_hosts=("sandbox.example",))
    with running_server(named) as server:
        [reply] = raw.exchange(server.port, raw.request("GET", path, host="10.0.0.11:8402"))
        assert reply.status == 200
