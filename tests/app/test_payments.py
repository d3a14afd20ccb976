"""What the service makes of a store that lets others in between, or fails."""

import asyncio
import json
from typing import Any

import pytest

from paymock.payments.records import StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.sandbox.metadata import new_metadata
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.snapshot import KeyedRequest
from paymock.schemas.json import fingerprint
from paymock.settings import Settings
from paymock.stores.base import AddResult, Store
from paymock.stores.memory import MemoryStore
from paymock.web.app import create_applications
from paymock.web.telemetry.access_log import RequestLog
from tests.support import raw
from tests.support.client import order
from tests.support.clock import ManualClock
from tests.support.stores import SharedStore
from tests.support.transport import Connection
from tests.support.use_cases import SANDBOX, UseCases


class FailingStore(MemoryStore):
    """Fails at every step."""

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        raise PaymockError("store_unavailable")

    async def add(self, *args: Any, **options: Any) -> AddResult:
        raise PaymockError("store_unavailable")

    async def page(self, *args: Any, **options: Any) -> list[tuple[int, bytes]]:
        raise PaymockError("store_unavailable")

    async def append(self, *args: Any, **options: Any) -> None:
        return None

    async def ping(self) -> None:
        raise PaymockError("store_unavailable")


def request(path: str, body: Any) -> KeyedRequest:
    return KeyedRequest(SANDBOX, "order-1001-payment", fingerprint("POST", path, body), body)


async def test_of_equal_creations_that_interleave_one_is_stored_and_all_see_it() -> None:
    app = UseCases(SharedStore())
    outcomes = await asyncio.gather(*(app.create() for _ in range(64)))
    assert [replayed for _, replayed in outcomes].count(False) == 1
    assert len({payment.id for payment, _ in outcomes}) == 1
    assert len(await app.sandboxes.page(SANDBOX, "payment", limit=99)) == 1


async def test_of_different_creations_under_one_key_one_wins_and_the_others_conflict() -> None:
    app = UseCases(SharedStore())
    service = app.service
    creations: list[Any] = []
    for number in range(10):
        body = order(order_id=f"order-{number}")
        creations.append(service.create_payment(request("/v1/payments", body), "happy_path"))
        endpoint = {"url": f"https://{number}.example"}
        creations.append(service.create_endpoint(request("/v1/webhooks", endpoint)))
    outcomes = await asyncio.gather(*creations, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, PaymockError)]
    assert len(refused) == 19
    assert {error.kind.status for error in refused} == {409}


PAYMENT = f"/v1/payments/pay_{'a' * 40}"
NEED_THE_STORE = [
    ("POST", "/v1/payments"),
    ("GET", PAYMENT),
    ("GET", f"{PAYMENT}/attempts"),
    ("POST", "/v1/webhooks"),
    ("GET", "/v1/webhooks"),
    ("GET", "/readyz"),
]
OPERATIONS = NEED_THE_STORE[:5]


class Server:
    """One of the servers of a store."""

    def __init__(self, store: Store, metadata: StoreMetadata) -> None:
        settings, clock = Settings(api_keys=("mk_test_demo",)), ManualClock()
        sandboxes = Sandboxes(store, clock, metadata)
        [app] = create_applications(settings, settings.addresses, sandboxes, clock, RequestLog(None))
        self.connection = Connection(app)

    async def request(
        self, method: str, path: str, body: Any = None, key: str = "order-1001-payment", **more: str
    ) -> int:
        """Return the status of the reply."""
        headers = {"Authorization": "Bearer mk_test_demo", **more}
        if body is not None:
            headers |= {"Content-Type": "application/json", "Idempotency-Key": key}
        number = len(self.connection.statuses)
        content = None if body is None else json.dumps(body).encode()
        self.connection.send(raw.request(method, path, headers, content, host="localhost"))
        while len(self.connection.statuses) == number:
            await asyncio.sleep(0)
        return self.connection.statuses[number]


def servers(store: Store) -> tuple[Server, Server]:
    metadata = new_metadata(ManualClock()(), 1, "tests")
    return Server(store, metadata), Server(store, metadata)


@pytest.mark.parametrize(("method", "path"), NEED_THE_STORE)
async def test_without_its_store_the_service_says_so_and_when_to_come_back(method: str, path: str) -> None:
    server, _ = servers(FailingStore())
    assert await server.request(method, path, order() if method == "POST" else None) == 503
    for part in (b'"store_unavailable"', b"\r\nretry-after: 1\r\n"):
        assert part in server.connection.transport.written


async def test_the_fault_of_a_header_needs_no_store() -> None:
    server, _ = servers(FailingStore())
    for method, path in OPERATIONS:
        body = order() if method == "POST" else None
        assert await server.request(method, path, body, **{"X-Mock-Fault": "status=500"}) == 500


@pytest.mark.parametrize("rule", [None, {"fault": "drop", "operation": "listWebhookEndpoints"}])
async def test_a_request_takes_one_step_of_the_store_unless_a_rule_may_select_it(rule: Any) -> None:
    store = SharedStore()
    server, other = servers(store)
    if rule is not None:
        assert await server.request("POST", "/_mock/faults", rule) == 201
    steps: dict[str, list[str]] = {}
    for name, method, path, body, status in (
        ("creation", "POST", "/v1/payments", order(), 201),
        ("replay", "POST", "/v1/payments", order(), 201),
        ("conflict", "POST", "/v1/payments", order(order_id="other"), 409),
        ("unknown payment", "GET", PAYMENT, None, 404),
        ("endpoint", "POST", "/v1/webhooks", {"url": "https://a.example"}, 409),
        ("catalog", "GET", "/v1/chains", None, 200),
    ):
        store.steps.clear()
        assert await server.request(method, path, body) == status
        steps[name] = list(store.steps)
    assert steps["creation"] == ["add"]
    assert steps["replay"] == ["add", "get"]  # of what has become of it
    assert steps["conflict"] == steps["endpoint"] == ["add", "get"]
    assert steps["unknown payment"] == ["get", "get"]
    assert steps["catalog"] == ["get"]
    store.steps.clear()
    assert await other.request("POST", "/v1/payments", order(), "order-1002-payment") == 201
    assert store.steps == ["add"] * (1 if rule is None else 2)  # the other server learns of the rule


async def test_a_rule_of_one_server_applies_to_the_next_request_at_any_other() -> None:
    store = SharedStore()
    one, other = servers(store)
    assert await other.request("POST", "/v1/payments", order()) == 201
    await one.request("POST", "/_mock/faults", {"fault": "status=500", "times": None})
    for method, path in OPERATIONS:
        body = order() if method == "POST" else None
        assert await other.request(method, path, body, "order-1002-payment") == 500
    await one.request("DELETE", "/_mock/faults")
    assert await other.request("GET", "/v1/chains") == 200
    await one.request("POST", "/_mock/faults", {"fault": "status=502"})
    await one.request("POST", "/_mock/next", {"scenario": "late_payment"})
    assert await other.request("POST", "/v1/payments", order(), "order-1001-payment") == 502  # a replay
    assert await other.request("POST", "/v1/payments", order(), "order-1001-payment") == 201
    assert await other.request("POST", "/v1/payments", order(), "order-1002-payment") == 201
    values = store._sandboxes[SANDBOX].values.values()
    assert b"late_payment" in b"".join(value for value in values if isinstance(value, bytes))
