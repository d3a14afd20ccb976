"""The fault `hold`: what lets a request go, and what its client, the journal and the rule show."""

import json
import socket
from collections.abc import Callable, Iterator
from contextlib import ExitStack, contextmanager

import pytest

from harness.polling import wait_until
from paymock.app import faults
from tests.support import raw
from tests.support.client import Api, order
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server

KEY = "order-1001-payment"

pytestmark = pytest.mark.parametrize(("fault", "carried_out"), [("hold", True), ("hold; before", False)])


@contextmanager
def held_creation(
    api: Api, server: RunningServer, fault: str, *, carried_out: bool
) -> Iterator[socket.socket]:
    """The connection of a creation that is held when the block begins."""
    headers = {"Authorization": f"Bearer {api.api_key}", "Content-Type": "application/json"}
    body = json.dumps(order()).encode()
    assert api.post("/_mock/faults", json={"fault": fault}).status_code == 201
    with socket.create_connection(("127.0.0.1", server.port), 60) as client:
        client.sendall(raw.request("POST", "/v1/payments", {**headers, "Idempotency-Key": KEY}, body))
        wait_until(lambda: waiting(api) == [1])
        assert len(api.get("/_mock/payments").json()["data"]) == carried_out
        assert journal(api) == []
        yield client


def waiting(api: Api) -> list[int]:
    """How many requests each rule holds."""
    return [rule["waiting"] for rule in api.get("/_mock/faults").json()["data"]]


def journal(api: Api) -> list[Json]:
    entries: list[Json] = api.get("/_mock/requests").json()["data"]
    return entries


def delete_rule(api: Api) -> None:
    [rule] = api.get("/_mock/faults").json()["data"]
    api.delete(f"/_mock/faults/{rule['id']}")


def delete_all_rules(api: Api) -> None:
    api.delete("/_mock/faults")


def reset(api: Api) -> None:
    api.post("/_mock/reset")


@pytest.mark.parametrize("let_go", [delete_rule, delete_all_rules, reset])
def test_it_ends_when_its_rule_is_deleted(
    api: Api, server: RunningServer, fault: str, *, carried_out: bool, let_go: Callable[[Api], None]
) -> None:
    with held_creation(api, server, fault, carried_out=carried_out) as client:
        api.advance(1)  # another change of the sandbox does not end it
        assert waiting(api) == [1]
        let_go(api)
        assert raw.next_reply(client).status == 201
    [entry] = journal(api)
    assert (entry["status"], entry["shown"], entry["fault"]) == (201, "awaiting_payment", fault)
    assert (entry["idempotency"], entry["order_id"]) == ("new", "order-1001")


def test_it_ends_after_a_time(
    api: Api, fault: str, *, carried_out: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(faults, "MAX_HANG", 0.01)
    api.post("/_mock/faults", json={"fault": fault})
    assert api.create().status_code == 201
    assert waiting(api) == [0]


def test_it_ends_when_the_client_leaves(
    api: Api, server: RunningServer, fault: str, *, carried_out: bool
) -> None:
    with held_creation(api, server, fault, carried_out=carried_out):
        pass
    wait_until(lambda: journal(api))
    [entry] = journal(api)
    assert (entry["status"], entry["shown"], entry["fault"]) == (0, None, fault)
    assert (entry["idempotency"], entry["order_id"]) == ("new" if carried_out else None, "order-1001")
    assert waiting(api) == [0]
    assert ("idempotent-replayed" in api.create(key=KEY).headers) == carried_out


def test_it_ends_when_the_server_stops(contract: Contract, fault: str, *, carried_out: bool) -> None:
    with ExitStack() as connection:
        with running_server() as server, Api(server.url, contract) as api:
            held = held_creation(api, server, fault, carried_out=carried_out)
            client = connection.enter_context(held)
        assert raw.next_reply(client).status == 201
