"""Canaries are found where they belong, and nowhere else. See SECURITY.md, "Properties"."""

import base64
import html
import json
import re
from collections import defaultdict
from collections.abc import Iterator, Mapping, Sequence
from functools import cached_property
from itertools import product
from typing import Any
from urllib.parse import quote

import httpx
import pytest
from msgspec.structs import fields

from paymock.app.payments import PaymentsService
from paymock.schemas.public import Query
from paymock.settings import Settings
from paymock.web.operations.operations import Operation
from tests.support import raw
from tests.support.client import fresh_key, order
from tests.support.contract import Json
from tests.support.operations import OF_RULES, OPERATIONS, arguments_of, body_of, path_of
from tests.support.server import RunningServer, running_server
from tests.support.stores import everything_in

OWN, REFUSALS, JOURNAL = "own replies", "own refusals", "own journal"
OTHERS, CHECKOUT, PAGES = "replies to others", "checkout", "pages and documents"
LOG, STORE, METRICS = "log", "store", "metrics"
PLACES = (OWN, REFUSALS, JOURNAL, OTHERS, CHECKOUT, PAGES, LOG, STORE, METRICS)

PAYOUT, REFUND = "0xcafe000000000000000000000000000000c0ffee", "0xbeef00000000000000000000000000000000feed"
OPEN_KEY, WRONG_KEY = "mk_test_canary_of_a_tenant", "canary-of-a-wrong-key"
CONFIGURED_KEY = "canary+key/of.the~first-merchant=="
OTHER_KEYS = {OPEN_KEY: "mk_test_another_tenant", CONFIGURED_KEY: "key-of-the-second-merchant"}

BELONGS: Mapping[str, tuple[str, ...]] = {
    "canary-order-id": (OWN, JOURNAL, CHECKOUT, STORE),
    "canary-metadata-name": (OWN, STORE),
    "canary-metadata-value": (OWN, STORE),
    "https://canary-hook.example/path": (OWN, STORE),
    "canary-note-of-an-endpoint": (OWN, STORE),
    PAYOUT: (OWN, STORE),
    REFUND: (OWN, STORE),
    "canary-unknown-field": (REFUSALS, JOURNAL, STORE),
    "canary-refused-value": (JOURNAL, STORE),
    "canary-broken-json": (REFUSALS, JOURNAL, STORE),
    "canary-idempotency-key": (),
    "canary-header-value": (REFUSALS, JOURNAL, STORE),
    "canary-query-name": (),
    "canary-query-value": (),
    "canary-host": (),
    "canary-malformed": (),
    "canary-path": (JOURNAL, LOG, STORE),
    WRONG_KEY: (),
}
"""Where each word is found: what a merchant sends comes back to the merchant alone, the log has paths, the
journal paths, order ids and the names of unknown fields, and the store has the journal.
"""
(
    ORDER_ID, META_NAME, META_VALUE, HOOK, NOTE, _, _, NAME, VALUE, BROKEN, IDEMPOTENCY, HEADER, QUERY_NAME,
    QUERY_VALUE, HOST, MALFORMED, PATH, _,
) = BELONGS  # fmt: skip

METADATA, ADDRESSES = {META_NAME: META_VALUE}, {"receive__address": PAYOUT, "refund_to__address": REFUND}
BODIES: Mapping[str, Json] = {
    "createPayment": order(order_id=ORDER_ID, metadata=METADATA, **ADDRESSES),
    "createWebhookEndpoint": {"url": HOOK, "description": NOTE},
}
JSON = {"Content-Type": "application/json"}
LINES = ("User-Agent", "Cookie", "Referer", "X-Request-Id", "X-Forwarded-For", "Traceparent", "Origin")


def forms(word: str) -> set[str]:
    plain = {word, word.removeprefix("0x"), quote(word, safe=""), json.dumps(word)[1:-1], html.escape(word)}
    encoded = {base64.b64encode(word.encode()).decode().rstrip("="), word.encode().hex()}
    return {form.lower() for form in plain | encoded}


class Merchant:
    """A client with an API key that keeps all that it is told, and what others are told meanwhile."""

    def __init__(self, server: RunningServer, api_key: str) -> None:
        self.server = server
        self.api_key = api_key
        self.bearer = f"Bearer {api_key}"
        self.client = httpx.Client(base_url=server.url, headers=dict.fromkeys(LINES, HEADER), timeout=60)
        self.found: defaultdict[str, list[str]] = defaultdict(list)
        self.secrets: set[str] = set()

    def ask(self, method: str, path: str, headers: Any = (), **arguments: Any) -> httpx.Response | None:
        """The reply, if it is not dropped."""
        headers = httpx.Headers(headers)
        headers.setdefault("Authorization", self.bearer)
        try:
            reply = self.client.request(method, path, headers=headers, **arguments)
        except (httpx.RemoteProtocolError, httpx.ReadError):
            assert headers["X-Mock-Fault"] == "drop"
            return None
        expected = JOURNAL if path.startswith(("/_mock/requests", "/_mock/story")) else OWN
        self.keep(expected if reply.is_success else REFUSALS, reply)
        return reply

    def keep(self, place: str, reply: httpx.Response) -> None:
        self.found[place].append(f"{reply.headers} {reply.text}")

    def created(self) -> str:
        headers = {"Idempotency-Key": f"{IDEMPOTENCY}-{fresh_key()}"}
        reply = self.ask("POST", "/v1/payments", headers, json=BODIES["createPayment"])
        assert reply is not None
        return str(reply.json()["id"])

    def try_everything(self, operations: Sequence[Operation], monkeypatch: pytest.MonkeyPatch) -> None:
        """The operations as they should be, and in every way in which they can be wrong."""
        for operation in operations:
            path = path_of(operation, self.created())
            self.succeed(operation, path)
            for value, name, part, line in (
                (VALUE, NAME, PATH, HEADER),
                *((word,) * 4 for word in (self.api_key, PAYOUT, *sorted(self.secrets)[:1])),  # always masked
            ):
                self.spoil(operation, path, value, name, line)
                self.spoil_path(operation, path.partition("?")[0], part)
            self.spoil_key(operation, path)
            self.look()
        self.send_malformed()
        self.meet_a_defect(monkeypatch)
        self.visit()
        self.look()
        self.look_as_another()

    def succeed(self, operation: Operation, path: str) -> None:
        headers, expected = keyed(operation), 404 if operation in OF_RULES else operation.status
        for _ in range(2 if operation.idempotency else 1):  # and a replay
            reply = self.ask(operation.method, path, headers, json=own_body(operation))
            assert reply is not None
            assert reply.status_code == expected, f"{operation.operation_id}: {reply.text}"
            self.secrets |= {*re.findall("whsec_[0-9a-f]+", reply.text)}
        if operation.idempotency:
            self.ask(operation.method, path, headers, json={NAME: VALUE})  # a conflict

    def spoil(self, operation: Operation, path: str, value: str, name: str, line: str) -> None:
        body = own_body(operation)
        word = BROKEN if value == VALUE else value
        contents = [f'{{"{word}": ', f'{{"{word}": 1, "{word}": 2}}', f'"{word}', f"[{word}]", f"{word}\xff"]
        contents += [json.dumps(word * 8_000)] if value == VALUE else []
        for content in contents:
            self.ask(operation.method, path, {**JSON, **keyed(operation)}, content=content.encode("latin-1"))
        for spoiled in spoiled_bodies(body or {}, value, name):
            self.ask(operation.method, path, keyed(operation), json=spoiled)
        for header, wrong in (
            ("Content-Type", f"text/{line}"),
            ("Content-Type", f"application/json; charset={line}"),
            ("Content-Encoding", line),
            ("X-Mock-Scenario", line),
            ("X-Mock-Fault", line),
            ("X-Mock-Fault", "status=418"),
            ("X-Mock-Fault", "drop"),
            ("Idempotency-Key", f"{line} {IDEMPOTENCY}"),
            ("Idempotency-Key", line * 20),
            ("Host", f"{HOST}.example"),
        ):
            self.ask(operation.method, path, {**JSON, **keyed(operation), header: wrong}, json=body)
        twice = [*keyed(operation).items(), ("X-Mock-Scenario", line)] * 2
        self.ask(operation.method, path, [*JSON.items(), *twice], json=body)

    def spoil_path(self, operation: Operation, path: str, word: str) -> None:
        query_name, query_value = (QUERY_NAME, QUERY_VALUE) if word == PATH else (word, word)
        part = quote(word, safe="")
        for parameter in operation.parameters:
            self.ask(operation.method, operation.path.replace(f"{{{parameter}}}", part))
        for other in (f"{path}/{part}", f"/v1/{word}", f"/_mock/{word}", f"/{part}"):
            self.ask(operation.method, other)
        names = [field.name for field in fields(operation.query or Query)]
        at_once = "&timeout=0" if "timeout" in names else ""
        queries = [query_value, *(f"{name}={query_value}{at_once}" for name in (query_name, *names))]
        for query in queries:
            self.ask(operation.method, f"{path}?{query}")
        for method in ("PATCH", "TRACE", "OPTIONS", "HEAD", "DELETE" if operation.method == "GET" else "GET"):
            self.ask(method, f"{path}?{queries[-1]}")

    def spoil_key(self, operation: Operation, path: str) -> None:
        wrong, own = (f"Bearer {WRONG_KEY}", f"Basic {WRONG_KEY}"), (self.api_key, f"Basic {self.api_key}")
        for value in (*wrong, *own, f"{self.bearer} x", f"{self.bearer}, {WRONG_KEY}"):
            headers = {**keyed(operation), "Authorization": value}
            self.ask(operation.method, path, headers, json=own_body(operation))

    def send_malformed(self) -> None:
        """What is not even a request."""
        host, key = "Host: localhost", f"Authorization: {self.bearer}"
        for lines in (
            [f"GET /{MALFORMED} HTTP/9.9"],
            [f"({MALFORMED}) / HTTP/1.1", host],
            [f"{self.api_key} /v1/chains HTTP/1.1", host, key],
            ["GET / HTTP/1.1", host, f"{MALFORMED} : {self.api_key}"],
            ["GET / HTTP/1.1", host, key, f"X-Long: {MALFORMED * 2000}"],
            ["POST /v1/payments HTTP/1.1", host, key, "Transfer-Encoding: chunked", "", MALFORMED],
        ):
            [reply] = raw.exchange(self.server.port, "\r\n".join([*lines, "", ""]).encode())
            assert reply.status in (400, 405, 431)
            self.found[REFUSALS].append(f"{reply.headers} {reply.body!r}")

    def meet_a_defect(self, monkeypatch: pytest.MonkeyPatch) -> None:
        async def broken(*_: object, **__: object) -> None:
            raise RuntimeError(f"{self.api_key} {VALUE} {PAYOUT}")

        with monkeypatch.context() as patch:
            patch.setattr(PaymentsService, "payment", broken)
            reply = self.ask("GET", f"/v1/payments/{self.created()}")
        assert reply is not None
        assert (reply.status_code, reply.json()["error"]["code"]) == (500, "internal_error")
        lines = self.server.log.getvalue().splitlines()
        assert [one for one in lines if "RuntimeError" in one and reply.headers["x-request-id"] in one]

    def look(self) -> None:
        """Into what is kept, before it is forgotten."""
        journal = self.client.get("/_mock/requests?limit=1000", headers={"Authorization": self.bearer})
        assert len(journal.json()["data"]) < 1000, "requests have been forgotten before they were looked at"
        self.keep(JOURNAL, journal)
        self.found[STORE].append(repr(everything_in(self.server.store)))

    def look_as_another(self) -> None:
        paid, other = self.created(), {"Authorization": f"Bearer {OTHER_KEYS[self.api_key]}"}
        with httpx.Client(base_url=self.server.url, headers=other, timeout=60) as client:
            for operation in OPERATIONS:
                for payment_id in ("pay_" + "a" * 40, paid):
                    path = path_of(operation, payment_id)
                    reply = client.request(operation.method, path, **arguments_of(operation, fresh_key()))
                    self.keep(CHECKOUT if operation.path.startswith("/checkout/") else OTHERS, reply)

    def visit(self) -> None:
        """All that is not among the operations: pages and documents."""
        paid, bearer = self.created(), {"Authorization": self.bearer}
        operations = {operation.path for operation in OPERATIONS}
        for template in self.server.app.routes.templates:
            if template in operations and not template.startswith("/checkout/"):
                continue
            place = CHECKOUT if template.startswith("/checkout/") else PAGES
            for payment_id in (paid, PATH):
                url = f"{template.replace('{payment_id}', payment_id)}?{QUERY_NAME}={QUERY_VALUE}"
                reply = self.client.get(url, headers=bearer)
                self.found[place].append(f"{reply.headers} {reply.content.decode('latin-1')}")
        assert self.server.metrics
        self.keep(METRICS, self.client.get(self.server.metrics, headers=bearer))

    @cached_property
    def texts(self) -> Mapping[str, str]:
        return {place: "".join(self.found[place]).lower() for place in PLACES}

    def where(self, word: str) -> tuple[str, ...]:
        """The places in which a word is found, in any of its forms."""
        written = forms(word)
        return tuple(place for place in PLACES if any(form in self.texts[place] for form in written))


def own_body(operation: Operation) -> Json | None:
    return BODIES.get(operation.operation_id, body_of(operation))


def keyed(operation: Operation) -> dict[str, str]:
    """An idempotency key that was never used, where there can be one."""
    return {"Idempotency-Key": f"{IDEMPOTENCY}-{fresh_key()}"} if operation.idempotency else {}


def spoiled_bodies(body: Json, value: str, name: str) -> Iterator[Any]:
    """Bodies that are refused: each has a field that is unknown, and maybe values that no field takes."""
    wrong_values = (value, [value], {name: value})
    yield from (*wrong_values, {**body, name: {name: [value]}}, dict.fromkeys((*body, name), value))
    for member, wrong in product(body, wrong_values):
        yield {**body, member: wrong, name: value}
        if isinstance(body[member], dict):
            yield {**body, member: dict.fromkeys((*body[member], name), wrong), name: value}


FEW = [one for one in OPERATIONS if one.operation_id in ("createPayment", "createWebhookEndpoint")]


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("text", OPEN_KEY, FEW), id="an open server, log as text, few operations"),
        pytest.param(
            ("text", OPEN_KEY, OPERATIONS), id="an open server, log as text", marks=pytest.mark.nightly
        ),
        pytest.param(("json", CONFIGURED_KEY, OPERATIONS), id="a configured key", marks=pytest.mark.nightly),
    ],
)
def merchant(request: pytest.FixtureRequest) -> Iterator[Merchant]:
    form, key, operations = request.param
    keys = () if key == OPEN_KEY else (key, OTHER_KEYS[key])
    settings = Settings(port=0, log=form, api_keys=keys, metrics_address="127.0.0.1:0")
    with running_server(settings) as server, pytest.MonkeyPatch.context() as monkeypatch:
        merchant = Merchant(server, key)
        with merchant.client:
            merchant.try_everything(operations, monkeypatch)
        merchant.found[LOG].append(server.log.getvalue())
        yield merchant


@pytest.mark.parametrize("word", BELONGS)
def test_a_word_is_found_where_it_belongs_and_nowhere_else(merchant: Merchant, word: str) -> None:
    assert merchant.where(word) == BELONGS[word]


def test_a_secret_is_found_in_the_reply_that_tells_it_alone(merchant: Merchant) -> None:
    assert merchant.secrets
    assert {merchant.where(secret) for secret in merchant.secrets} == {(OWN,)}


def test_an_api_key_is_found_nowhere(merchant: Merchant) -> None:
    for key in (merchant.api_key, OTHER_KEYS[merchant.api_key]):
        assert merchant.where(key) == ()


def test_there_is_text_where_words_are_looked_for(merchant: Merchant) -> None:
    assert all(len(merchant.texts[place]) > 1000 for place in PLACES)
    for place, word in ((LOG, "defect"), (LOG, "***"), (JOURNAL, "***"), (METRICS, "paymock_requests_total")):
        assert word in merchant.texts[place]


@pytest.mark.parametrize("text", ["a%2Fb%3D%3D", "A/B==", "YS9iPT0", "612f623d3d"])
def test_a_word_is_found_in_another_form(text: str) -> None:
    assert any(form in text.lower() for form in forms("a/b=="))
