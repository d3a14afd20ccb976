"""Every bad request is refused with the right status, code and fields, repeats no secret and leaves nothing
behind. Its acceptable neighbors are accepted, and shown as they were sent.
"""

import asyncio
import json
import re
import uuid
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from paymock.resources.records import EndpointRecord, PaymentRecord
from paymock.rules.identifiers import sandbox_of
from tests.support.client import ORDER, Api, error_of, fresh_key
from tests.support.contract import Contract
from tests.support.raw import RawReply, exchange
from tests.support.server import RunningServer, running_server
from tests.web.api.bad_input.building import (
    API_KEY_LENGTH,
    ORDER_BYTES,
    PAYMENTS,
    REALM,
    WEBHOOKS,
    Case,
    changed,
    encoded,
    post,
)
from tests.web.api.bad_input.groups import GROUPS
from tests.web.api.bad_input.webhooks import HOOK

SHORTEST_SECRET = 6
"""Shorter text may stand in a message by chance."""

DEFAULTS: dict[str, Any] = {"refund_to": None, "metadata": {}, "events": ["*"], "description": None}


class Caller:
    """Somebody with an API key and an idempotency key of their own, who sends bytes."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.api_key = f"mk_test_{uuid.uuid4().hex}"
        assert len(self.api_key) == API_KEY_LENGTH
        self.words = {"api_key": self.api_key, "key": fresh_key()}

    def prepare(self, data: bytes) -> None:
        """Creates what `data` refers to."""
        if b"{payment" in data:
            self.words["payment"] = self._created(post(ORDER_BYTES))
            self.words["payment_token"] = self.words["payment"].removeprefix("pay_")
        if b"{endpoint_token}" in data:
            endpoint = self._created(post(encoded(HOOK), path=WEBHOOKS))
            self.words["endpoint_token"] = endpoint.removeprefix("we_")
        if b"{others_payment}" in data:
            self.words["others_payment"] = Caller(self.server)._created(post(ORDER_BYTES))

    def filled(self, data: bytes) -> bytes:
        for name, value in self.words.items():
            data = data.replace(b"{%s}" % name.encode(), value.encode())
        return data

    def send(self, data: bytes) -> RawReply:
        replies = exchange(self.server.port, self.filled(data))
        assert replies, "the connection was closed without a reply"
        return replies[0]

    def stored(self) -> list[bytes]:
        """What the server keeps for the API key."""
        store, sandbox = self.server.store, sandbox_of(self.api_key)
        kinds = (PaymentRecord.KIND, EndpointRecord.KIND)
        return [record for kind in kinds for _, record in asyncio.run(store.page(sandbox, kind, limit=999))]

    def _created(self, data: bytes) -> str:
        reply = self.send(data.replace(b"{key}", fresh_key().encode()))
        return str(json.loads(reply.body)["id"])


@pytest.fixture(scope="module")
def server() -> Iterator[RunningServer]:
    with running_server() as running:
        yield running
    log = running.log.getvalue()
    assert "defect" not in log
    assert "mk_test_" not in log


@pytest.fixture(scope="module")
def contract(server: RunningServer) -> Contract:
    return Contract.of(server.url)


@pytest.mark.parametrize(
    "case",
    [
        pytest.param(case, id=f"{group}: {case.name.removeprefix(f'{group}: ')}")
        for group, cases in GROUPS.items()
        for case in cases
    ],
)
def test_bad_input(case: Case, server: RunningServer, contract: Contract) -> None:
    caller = Caller(server)
    caller.prepare(case.data)
    before = caller.stored()
    reply = caller.send(case.data)
    assert (reply.status, code_of(reply)) == (case.status, case.code), reply.body[:500]
    assert reply.headers["x-request-id"]
    for name, value in case.headers.items():
        assert set(reply.headers[name].split(", ")) == set(value.split(", "))
    check_contract(contract, caller.filled(case.data), reply)
    if case.status < 400:
        assert len(caller.stored()) - len(before) == (1 if case.status == 201 else 0)
        check_shown(case, reply)
        return
    check_envelope(case, reply)
    check_privacy(case, reply, caller.api_key)
    assert caller.stored() == before
    if b"{key}" in case.data:
        again = caller.send(post(ORDER_BYTES))
        assert again.status == 201
        assert "idempotent-replayed" not in again.headers


def code_of(reply: RawReply) -> str:
    return reply.code if reply.status >= 400 else ""


def check_contract(contract: Contract, data: bytes, reply: RawReply) -> None:
    """Holds the reply against the OpenAPI document, where that speaks of the request."""
    start = re.match(rb"([A-Z]+) (/v1/[!-~]+) HTTP/1\.1\r\n", data)
    if start:
        request = httpx.Request(start[1].decode(), "http://127.0.0.1" + start[2].decode())
        if request.url.raw_path == start[2]:
            contract.check(
                httpx.Response(reply.status, headers=reply.headers, content=reply.body, request=request)
            )


def check_shown(case: Case, reply: RawReply) -> None:
    """The reply to a creation shows what was sent, or the default."""
    assert "idempotent-replayed" not in reply.headers
    if case.body is None:
        return
    shown = json.loads(reply.body)
    for name, sent in case.body.items():
        if sent is not None:
            assert json.dumps(shown[name]) == json.dumps(sent)
        elif name in DEFAULTS:
            assert shown[name] == DEFAULTS[name]


def check_envelope(case: Case, reply: RawReply) -> None:
    assert reply.headers["content-type"] == "application/json"
    envelope = json.loads(reply.body)
    assert set(envelope) == {"error"}
    error = envelope["error"]
    assert error["message"]
    if case.status == 401:
        assert reply.headers["www-authenticate"].startswith(REALM)
    if case.code != "validation_failed":
        assert set(error) == {"code", "message"}
        return
    assert set(error) == {"code", "message", "details"}
    assert all(set(detail) == {"field", "message"} and detail["message"] for detail in error["details"])
    assert sorted(detail["field"] for detail in error["details"]) == sorted(case.fields)


def check_privacy(case: Case, reply: RawReply, api_key: str) -> None:
    """No refusal repeats the API key, an address or metadata, or shows the inside of the server."""
    texts = "\n".join([reply.body.decode(), *texts_in(json.loads(reply.body)), *reply.headers.values()])
    for secret in (api_key, *case.private, *confidential(ORDER), *confidential(case.body)):
        assert len(secret) < SHORTEST_SECRET or secret not in texts
    assert "Traceback" not in texts


def confidential(body: Any) -> Iterator[str]:
    """The addresses and metadata of an order, without white space around them."""
    order = body if isinstance(body, dict) else {}
    for name in ("receive", "refund_to"):
        part = order.get(name)
        if isinstance(part, dict):
            yield from texts_in(part.get("address"))
    yield from texts_in(order.get("metadata"))


def texts_in(value: Any) -> Iterator[str]:
    """Every string and number of a JSON value, member names included."""
    if isinstance(value, dict):
        for name, member in value.items():
            yield from texts_in(name)
            yield from texts_in(member)
    elif isinstance(value, list):
        for item in value:
            yield from texts_in(item)
    elif value is not None:
        yield str(value).strip()


@pytest.mark.parametrize(
    ("path", "status"),
    [
        ("/v1/chains", 200),
        ("/v1/chains/bsc/assets", 200),
        ("/v1/webhooks", 200),
        ("/livez", 200),
        ("/v1/chains/solana/assets", 404),
        (f"/v1/payments/pay_{'a' * 40}", 404),
        ("/v1/chains/", 404),
        ("/nowhere", 404),
        ("/v1/payments", 405),
    ],
)
def test_head_answers_like_get_without_a_body(
    path: str, status: int, server: RunningServer, contract: Contract
) -> None:
    with Api(server.url, contract) as api:
        reply = api.head(path)
        assert (reply.status_code, reply.content) == (status, b"")
        if status < 405:
            assert reply.headers["content-length"] == api.get(path).headers["content-length"]


def test_head_needs_a_key_too(server: RunningServer) -> None:
    reply = httpx.head(f"{server.url}/v1/chains")
    assert (reply.status_code, reply.content) == (401, b"")
    assert reply.headers["www-authenticate"] == REALM


@pytest.mark.parametrize(
    ("path", "body"),
    [
        pytest.param(PAYMENTS, changed("order_id", "order-1002"), id="another value"),
        pytest.param(PAYMENTS, changed("order_id", "ORDER-1001"), id="another case"),
        pytest.param(PAYMENTS, changed("metadata"), id="one member less"),
        pytest.param(PAYMENTS, changed("metadata", None), id="null"),
        pytest.param(PAYMENTS, changed("memo", "x"), id="unknown member"),
        pytest.param(PAYMENTS, changed("receive.amount", "1.5"), id="unacceptable value"),
        pytest.param(PAYMENTS, {}, id="empty object"),
        pytest.param(PAYMENTS, [ORDER], id="array"),
        pytest.param(WEBHOOKS, ORDER, id="same body elsewhere"),
        pytest.param(WEBHOOKS, HOOK, id="another operation"),
    ],
)
def test_used_key_is_refused_for_anything_else(
    path: str, body: Any, server: RunningServer, contract: Contract
) -> None:
    key = fresh_key()
    with Api(server.url, contract) as api:
        created = api.create(ORDER, key=key)
        assert error_of(api.create(body, key=key, path=path)) == (
            409,
            "idempotency_key_reused_with_different_payload",
        )
        assert api.get(WEBHOOKS).json() == {"data": []}
        repeated = api.create(ORDER, key=key)
        assert (repeated.content, repeated.headers["idempotent-replayed"]) == (created.content, "true")


def test_malformed_body_of_a_used_key_is_malformed(server: RunningServer) -> None:
    caller = Caller(server)
    assert caller.send(post(ORDER_BYTES)).status == 201
    reply = caller.send(post(ORDER_BYTES[:-1]))
    assert (reply.status, reply.code) == (400, "invalid_json")
