"""Every bad request is refused with the right status, code and fields, repeats no secret and leaves nothing
behind. Its acceptable neighbors are accepted, and shown as they were sent.
"""

import asyncio
import json
import re
import uuid

import pytest

from paymock.payments.records import EndpointRecord, PaymentRecord
from paymock.rules.identifiers import sandbox_of
from tests.support.client import ORDER, fresh_key
from tests.support.contract import Contract
from tests.support.raw import RawReply, exchange
from tests.support.server import RunningServer
from tests.web.operations import bad_input
from tests.web.operations.bad_input import KEYED_JSON, ORDER_BYTES, Case, changed, encoded, post, read

CASES = [
    pytest.param(case, id=f"{name} {number}")
    for name, cases in vars(bad_input).items()
    if isinstance(cases, list)
    for number, case in enumerate(cases, 1)
]
SHORTEST_SECRET = 6
"""Shorter text may stand in a message by chance."""


class Caller:
    """Somebody with an API key and an idempotency key of their own, who sends bytes."""

    def __init__(self, server: RunningServer) -> None:
        self.server = server
        self.api_key = f"mk_test_{uuid.uuid4().hex}"
        self.words = {"api_key": self.api_key, "key": fresh_key()}

    def send(self, data: bytes) -> RawReply:
        for name, value in self.words.items():
            data = data.replace(b"{%s}" % name.encode(), value.encode())
        replies = exchange(self.server.port, data)
        assert replies, "the connection was closed without a reply"
        return replies[0]

    def stored(self) -> list[bytes]:
        store, sandbox = self.server.store, sandbox_of(self.api_key)
        kinds = (PaymentRecord.KIND, EndpointRecord.KIND)
        return [record for kind in kinds for _, record in asyncio.run(store.page(sandbox, kind, limit=999))]


@pytest.mark.parametrize("case", CASES)
def test_bad_input_is_refused_and_good_input_accepted(
    server: RunningServer, contract: Contract, case: Case
) -> None:
    logged = len(server.log.getvalue())
    try:
        check(case, Caller(server), contract)
    except AssertionError as error:
        error.add_note(f"The request: {case.data[:1000]!r}")
        raise
    log = server.log.getvalue()[logged:]
    assert "defect" not in log
    assert "mk_test_" not in log


def check(case: Case, caller: Caller, contract: Contract) -> None:
    if b"{payment}" in case.data:
        created = caller.send(post(ORDER_BYTES).replace(b"{key}", b"order-of-before"))
        caller.words["payment"] = json.loads(created.body)["id"]
    before = caller.stored()
    reply = caller.send(case.data)
    assert (reply.status, reply.code if reply.status >= 400 else "") == (case.status, case.code), reply
    if case.header:
        name, value = case.header
        assert set(reply.headers[name].split(", ")) == set(value.split(", "))
    if start := re.match(rb"(GET|POST) (/v1/[\w/{}]+) HTTP/1\.1\r\n", case.data):
        contract.check_raw(start[1].decode(), start[2].decode(), reply)
    if case.status < 400:
        assert len(caller.stored()) - len(before) == (1 if case.status == 201 else 0)
        assert "idempotent-replayed" not in reply.headers
        for name, sent in (case.body or {}).items():
            assert sent is None or json.dumps(json.loads(reply.body)[name]) == json.dumps(sent)
        return
    check_refusal(case, reply)
    texts = f"{reply.body.decode()} {reply.headers}"
    assert "Traceback" not in texts
    assert not [secret for secret in (caller.api_key, *secrets_of(case)) if secret in texts]
    assert caller.stored() == before
    if b"{key}" in case.data:
        again = caller.send(post(ORDER_BYTES))
        assert again.status == 201
        assert "idempotent-replayed" not in again.headers


def check_refusal(case: Case, reply: RawReply) -> None:
    assert reply.headers["content-type"] == "application/json"
    envelope = json.loads(reply.body)
    assert set(envelope) == {"error"}
    error = envelope["error"]
    assert error["message"]
    assert error.pop("request_id") == reply.headers["x-request-id"] != ""
    details = error.pop("details", [])
    assert set(error) == {"code", "message"}
    assert all(set(detail) == {"field", "message"} and detail["message"] for detail in details)
    assert sorted(detail["field"] for detail in details) == sorted(case.fields)


def secrets_of(case: Case) -> list[str]:
    parts = []
    for order in (ORDER, case.body if isinstance(case.body, dict) else {}):
        places = [order.get(name) for name in ("receive", "refund_to")]
        parts += [place.get("address") for place in places if isinstance(place, dict)]
        parts += [order.get("metadata")]
    return re.findall(rf'[^"\\:,{{}}\[\] ]{{{SHORTEST_SECRET},}}', encoded(parts).decode())


def metadata(value: str) -> bytes:
    return post(ORDER_BYTES.replace(b'"metadata": {', b'"metadata": {"entry": %b, ' % value.encode()))


def with_header(line: str) -> bytes:
    name = line.partition(":")[0]
    return post(ORDER_BYTES, *(one for one in KEYED_JSON if not one.startswith(name)), line)


MESSAGES = {
    post(b""): "it is empty",
    post(b"\xef\xbb\xbf{}"): "it begins with a byte order mark",
    post(b"\x1f\x8b\x08"): "it is compressed with gzip",
    metadata('[0, {"b": 1, "b": 2}]'): "two members of the same name, `b`",
    metadata('{"b": [9007199254740993]}'): "found at `metadata.entry.b[0]`",
    metadata('{"\\u0000": 1}'): "found at `metadata.entry.\\x00`",
    metadata("[" * 8 + "]" * 8): "not 9, in `metadata.entry`",
    metadata(json.dumps("x" * 16_384)): "; the longest entry is `metadata.entry`",
    metadata('1, "%s": 1' % ("k" * 65)): f"entry 2 has 65: `{'k' * 63}…`",
    post(encoded(changed("expires_at", "2031-02-29T00:00:00Z"))): "the day is from 1 to 28, not 29",
    post(encoded(changed("receive.amount", 10.5))): '"; 1 USDT on bsc is "1000000000000000000"',
    post(encoded(changed("receive.amount", "1e18"))): '1 USDT on bsc is "1000000000000000000"',
    with_header("Idempotency-Key: abcde"): "a length of 5; 8 to 128",
    with_header("Idempotency-Key: abcd efgh"): "not visible ASCII, number 5 of 9",
    with_header("Content-Type: text/plain"): "`text/plain` was sent",
    with_header("Content-Type: a/" + "z" * 99): f"`a/{'z' * 61}…` was sent",
    with_header("Content-Encoding: br"): "`br` was sent",
    with_header("X-Mock-Scenario: success"): "The nearest is happy_path",
    with_header("X-Mock-Scenario: completed"): "A payment becomes `completed` in happy_path",
    with_header("X-Mock-Scenario: xyzzy"): "settlement_failed, manual_review.",
    read("/v1/payments"): "no list of payments",
    read("/v1/payment/x"): "Did you mean `/v1/payments/{payment_id}`?",
    read("/api/v1/chains/bsc/asset"): "Did you mean `/v1/chains/{chain}/assets`?",
    read("/payments/pay_1", "Accept: */*"): "Did you mean `/v1/payments/{payment_id}`?",
    read("/v1/payments/undefined"): "begins with pay_.",
    read("/v1/payments/att_1"): "begins with pay_, that of an attempt with att_",
    read("/v1/payments/order-1001"): "That is an order: its newest payment is `{payment}`.",
    read("/v1/payments/pay_x"): "This server keeps payments in memory, since 2030-01-31T12:00:00Z.",
    **{
        read(path): said
        for said, paths in {
            "Use `POST /v1/payments`.": ["/v1/charges", "/v1/invoices/1", "/v1/checkout/sessions"],
            "This service has none: ": ["/v1/payments/pay_1/cancel", "/v1/refunds", "/v1/charges/1/capture"],
            "`/livez` and `/readyz`": ["/health", "/healthz", "/ping", "/v1/status"],
            "The document is `/openapi.yaml`": ["/openapi.json", "/v1/openapi.json"],
            "Slashes must match exactly. Did you mean `/v1/chains`?": ["/v1/chains/", "//v1/chains"],
        }.items()
        for path in paths
    },
    **{
        read("/v1/chains", *lines): said
        for said, headers in {
            "`Bearer` was sent twice.": [["Authorization: Bearer Bearer mk_test_a"]],
            "without a key": [["Authorization: Bearer"]],
            "quotation marks or brackets": [['Authorization: Bearer "mk_test_a"'], ["Authorization: <KEY>"]],
            "The name of a variable": [["Authorization: Bearer $KEY"], ["Authorization: Bearer %KEY%"]],
            "Another scheme": [["Authorization: Basic bWs6"], ["Authorization: Token mk_test_a"]],
            "without `Bearer`": [["Authorization: mk_test_a"]],
            "The header was sent twice.": [["Authorization: Bearer mk_test_a", "Authorization: a"]],
            "another header": [["X-Api-Key: mk_test_a"], ["Api-Key: mk_test_a"]],
        }.items()
        for lines in headers
    },
}
"""Requests, and what the refusal says."""


def test_a_refusal_says_what_is_wrong_and_what_would_be_right(server: RunningServer) -> None:
    caller = Caller(server)
    _, created = (caller.send(post(ORDER_BYTES).replace(b"{key}", b"key-%d-of-order" % n)) for n in (1, 2))
    newest = json.loads(created.body)["id"]
    for request, said in MESSAGES.items():
        error = json.loads(caller.send(request).body)["error"]
        [text] = [one["message"] for one in error.get("details", ())] or [error["message"]]
        assert said.replace("{payment}", newest) in text, (request, text)
