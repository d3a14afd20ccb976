"""Two tenants: whatever one does, the other does not notice, and the ids of the other lead nowhere."""

import hmac
from collections.abc import Iterator
from contextlib import nullcontext
from dataclasses import dataclass
from unittest import mock
from urllib.parse import unquote_plus

import httpx
import pytest

from paymock.http.keys import Keyring
from paymock.http.requests import Request
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.settings import Settings
from paymock.web.operations.operations import Operation
from tests.support.client import Api, error_of, fresh_key, order, without_id
from tests.support.contract import Contract, Json
from tests.support.operations import (
    BRIEFLY,
    OF_PAYMENTS,
    OF_RULES,
    OPERATIONS,
    arguments_of,
    body_of,
    path_of,
)
from tests.support.server import RunningServer, running_server
from tests.support.stores import everything_in

NEVER_MADE = "pay_" + "a" * 40
UNKNOWN = (404, "payment_not_found")
IDEMPOTENCY_KEY = "order-1001-payment"
METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS", "TRACE")

each_operation = pytest.mark.parametrize("operation", OPERATIONS, ids=lambda one: one.operation_id)
each_operation_of_payments = pytest.mark.parametrize(
    "operation", [one for one in OF_PAYMENTS if one.needs_key], ids=lambda one: one.operation_id
)


@dataclass
class Owner:
    """A tenant with payments in different states, endpoints, overrides, a clock of its own and a journal."""

    client: httpx.Client
    api_key: str
    payment_ids: list[str]
    marks: list[str]
    """What is in its replies, and in those of nobody else."""

    def state(self, server: RunningServer) -> object:
        self.client.get("/_mock/requests")  # what is still to be written to the journal is written
        return everything_in(server.store._sandboxes[sandbox_of(self.api_key)])

    def foreign(self) -> dict[str, str]:
        page = self.client.get("/_mock/payments?limit=1").json()
        named = {"payment_id": self.payment_ids[0], "order_id": page["data"][0]["order_id"]}
        return {**BRIEFLY, **named, "cursor": page["next_cursor"]}


@pytest.fixture(scope="module")
def owner(shared_server: RunningServer) -> Iterator[Owner]:
    api_key = f"mk_test_{fresh_key()}"
    with httpx.Client(base_url=shared_server.url, headers={"Authorization": f"Bearer {api_key}"}) as client:

        def post(path: str, body: Json, **headers: str) -> Json:
            reply = client.post(path, json=body, headers=headers)
            assert reply.is_success, reply.text
            found: Json = reply.json()
            return found

        client.put("/_mock/clock", json={"speed": 0})
        created = [
            post(
                "/v1/payments",
                order(order_id=f"order of the owner {scenario}", metadata={"note": "of the owner"}),
                **{"Idempotency-Key": f"{IDEMPOTENCY_KEY}{suffix}", "X-Mock-Scenario": scenario},
            )
            for scenario, suffix in (("happy_path", ""), ("no_payment_expired", "-2"), ("late_payment", "-3"))
        ]
        ids = [str(payment["id"]) for payment in created]
        post(f"/_mock/payments/{ids[0]}/advance", {"to": "completed"})
        post(f"/_mock/payments/{ids[1]}/deposits", {"amount": "5"})
        post("/_mock/clock/advance", {"seconds": 7})
        hook = {"url": "https://owner.example/hooks", "description": "note of the owner"}
        secret = post("/v1/webhooks", hook, **{"Idempotency-Key": fresh_key()})["secret"]
        post("/_mock/next", {"scenario": "settlement_failed", "times": None})
        attempts = [payment["attempts"][0] for payment in created]
        marks = [*ids, *(attempt["id"] for attempt in attempts), "of the owner", hook["url"], secret]
        marks += [attempt["instructions"]["invoice_address"] for attempt in attempts]
        yield Owner(client, api_key, ids, marks)


@pytest.fixture
def unchanged(owner: Owner, server: RunningServer) -> Iterator[Owner]:
    """An owner who must not notice what the test does."""
    before = owner.state(server)
    yield owner
    assert owner.state(server) == before


@pytest.fixture
def stranger(server: RunningServer, contract: Contract) -> Iterator[Api]:
    with Api(server.url, contract) as api:
        yield api


@each_operation_of_payments
def test_a_payment_of_another_key_does_not_exist(
    unchanged: Owner, stranger: Api, operation: Operation
) -> None:
    body = body_of(operation)
    asked = path_of(operation, unchanged.payment_ids[0])
    arguments = arguments_of(operation, IDEMPOTENCY_KEY)
    assert error_of(stranger.request(operation.method, asked, **arguments)) == UNKNOWN
    for other_body in (body, *([{}, [], {"unknown": 1}] if body else [])):
        for payment_id in unchanged.payment_ids:
            paths = [path_of(operation, asked) for asked in (payment_id, NEVER_MADE)]
            arguments["json"] = other_body
            replies = [stranger.request(operation.method, path, **arguments) for path in paths]
            assert replies[0].status_code >= 400
            assert without_id(replies[0]) == without_id(replies[1])
            assert {*replies[0].headers} == {*replies[1].headers}


@each_operation
def test_no_method_shows_or_changes_anything_of_the_owner(
    unchanged: Owner, stranger: Api, operation: Operation
) -> None:
    path = path_of(operation, unchanged.payment_ids[0], unchanged.foreign())
    for method in METHODS:
        reply = stranger.request(method, path, **arguments_of(operation, IDEMPOTENCY_KEY))
        assert reply.status_code < 500
        if operation.path.startswith("/checkout/"):  # whoever has the id may see it
            continue
        of_payment = operation in OF_PAYMENTS and operation.needs_key
        of_payment |= operation.operation_id == "getStory"  # by its query
        assert reply.status_code in (204, 404, 405) or not of_payment
        if method == operation.method:
            assert reply.status_code == (404 if of_payment or operation in OF_RULES else operation.status)
        assert "idempotent-replayed" not in reply.headers
        told = f"{reply.headers} {reply.text}"
        named = unquote_plus(path) if operation.waits else ""  # the end of a wait says what was awaited
        assert not [mark for mark in unchanged.marks if mark in told and mark not in named]


@pytest.mark.parametrize(
    "operation", [one for one in OPERATIONS if one.needs_key], ids=lambda one: one.operation_id
)
def test_without_a_key_nothing_is_seen_or_changed(
    unchanged: Owner, server: RunningServer, operation: Operation
) -> None:
    own = f"Bearer {unchanged.api_key}"
    wrong: list[list[tuple[str, str]]] = [
        [],
        [("Authorization", f"{own}x!")],
        [("Authorization", f"Basic {unchanged.api_key}")],
        [("Authorization", own), ("Authorization", own)],
        [("Authorization", "Bearer mk_live_other"), ("X-Api-Key", unchanged.api_key)],
        [("Cookie", f"Authorization={own}")],
    ]
    arguments = arguments_of(operation, IDEMPOTENCY_KEY)
    with httpx.Client(base_url=server.url) as nobody:
        for lines in wrong:
            path = path_of(operation, unchanged.payment_ids[0])
            headers = [*arguments["headers"].items(), *lines]
            reply = nobody.request(operation.method, path, json=arguments["json"], headers=headers)
            assert error_of(reply) == (401, "unauthenticated")
            assert not [mark for mark in unchanged.marks if mark in reply.text]


def test_a_stranger_who_polls_is_told_nothing(owner: Owner, stranger: Api) -> None:
    before = [client.get("/_mock/clock").json()["revision"] for client in (owner.client, stranger)]
    owner.client.post(f"/_mock/payments/{owner.payment_ids[1]}/advance", json={"to": "end"})
    after = [client.get("/_mock/clock").json()["revision"] for client in (owner.client, stranger)]
    assert [one == other for one, other in zip(before, after, strict=True)] == [False, True]


@pytest.mark.parametrize(
    "token", ["first-key", "second-key", "third-key", "first-kez", "f", "x" * 200, "first-key.name", "x.name"]
)
def test_a_token_is_compared_with_every_key_in_constant_time(token: str) -> None:
    keys = ("first-key", "second-key", "third-key")
    headers = {b"authorization": f"Bearer {token}".encode()}
    request = Request("GET", "/v1/chains", headers)
    key = token.removesuffix(".name")
    refused = nullcontext() if key in keys else pytest.raises(PaymockError)
    with mock.patch("hmac.compare_digest", wraps=hmac.compare_digest) as compare, refused:
        Keyring(keys).authenticate(request)
    presented = [token, key if key != token else ""]
    assert [(bytes(one), bytes(other)) for (one, other), _ in compare.call_args_list] == [
        (one.encode(), other.encode()) for one in presented for other in keys
    ]


def test_a_fault_rule_of_another_key_cannot_be_deleted(owner: Owner, stranger: Api) -> None:
    rule = owner.client.post("/_mock/faults", json={"fault": "drop", "order_id": "order-1002"}).json()
    assert error_of(stranger.delete(f"/_mock/faults/{rule['id']}")) == (404, "not_found")
    assert stranger.delete("/_mock/faults").status_code == 204
    assert owner.client.get("/_mock/faults").json() == {"data": [rule]}


def test_no_key_uses_up_the_room_of_all_once_another_has_a_payment(contract: Contract) -> None:
    """Of 50 payments, a key K with its K.NAME has at most nine times what is free."""
    keys = ("first-key", "second-key")
    with (
        running_server(Settings(port=0, api_keys=keys, max_payments=50)) as server,
        Api(server.url, contract, "first-key") as first,
        Api(server.url, contract, "first-key.branch") as branch,
        Api(server.url, contract, "second-key") as second,
    ):
        second.created()
        for number in range(45):
            (branch if number % 2 else first).created()
        for api in (first, branch):
            assert error_of(refused := api.create()) == (503, "capacity_exceeded")
            assert "used up their share" in refused.json()["error"]["message"]
        second.created()
        first.post("/_mock/reset")
        branch.created()
