"""What the service makes of a store that lets others in between, or fails."""

import asyncio
import json
from typing import Any

import pytest

from paymock.payments.files import load_catalog
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.rules.scenarios import SCENARIOS
from paymock.sandbox.sandboxes import KeyedRequest, new_metadata
from paymock.schemas.json_decoding import fingerprint
from paymock.schemas.public import Payment
from paymock.settings import Settings
from paymock.stores.base import AddResult
from paymock.stores.memory import MemoryStore
from paymock.web.app import create_app
from paymock.web.telemetry.access_log import RequestLog
from tests.support import raw
from tests.support.client import order
from tests.support.clock import ManualClock
from tests.support.specification import COURSES
from tests.support.stores import SharedStore
from tests.support.transport import Connection, turns
from tests.support.use_cases import SANDBOX, UseCases


class FailingStore(MemoryStore):
    """Fails at every step."""

    additions = 0

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        raise PaymockError("store_unavailable")

    async def add(self, *args: Any, **options: Any) -> AddResult:
        self.additions += 1
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
        creations.append(service.create_payment(request("/v1/payments", body), "happy_path", app.injection()))
        endpoint = {"url": f"https://{number}.example"}
        creations.append(service.create_endpoint(request("/v1/webhooks", endpoint), app.injection()))
    outcomes = await asyncio.gather(*creations, return_exceptions=True)
    refused = [outcome for outcome in outcomes if isinstance(outcome, PaymockError)]
    assert len(refused) == 19
    assert {error.kind.status for error in refused} == {409}


@pytest.mark.parametrize("runs", [100, pytest.param(1000, marks=pytest.mark.nightly)])
async def test_parallel_runs_of_all_scenarios_give_the_same_transcript(runs: int) -> None:
    """Apart from ids and addresses, which differ; the runs interleave at every step of the store."""
    app = UseCases(SharedStore())

    async def transcript(sandbox: str) -> list[object]:
        seen: list[object] = []
        for scenario in SCENARIOS:
            key = f"key-of-{scenario}"
            creation = KeyedRequest(sandbox, key, fingerprint("POST", "/v1/payments", scenario), order())
            created = await app.service.create_payment(creation, scenario, app.injection())
            for _ in COURSES[scenario][1:]:
                payment = await app.control.advance_payment(sandbox, created.payment.id, to="next")
                assert isinstance(payment, Payment)
                attempt = payment.attempts[0]
                seen.append((scenario, payment.status, attempt.status, attempt.funding))
        return seen

    first, *others = await asyncio.gather(
        *(transcript(sandbox_of(f"mk_test_{number}")) for number in range(runs))
    )
    assert all(other == first for other in others)


PAYMENT = f"/v1/payments/pay_{'a' * 40}"
NEED_THE_STORE = [
    ("POST", "/v1/payments"),
    ("GET", PAYMENT),
    ("GET", f"{PAYMENT}/attempts"),
    ("POST", "/v1/webhooks"),
    ("GET", "/v1/webhooks"),
    ("GET", "/readyz"),
]


@pytest.mark.parametrize(("method", "path"), NEED_THE_STORE)
async def test_without_its_store_the_service_says_so_and_when_to_come_back(method: str, path: str) -> None:
    clock = ManualClock()
    metadata = new_metadata(clock(), 1, "tests")
    store, settings = FailingStore(), Settings(api_keys=("key",))
    app = create_app(settings, load_catalog(None), store, metadata, clock, RequestLog(None))
    headers = {"Authorization": "Bearer key.name", "Idempotency-Key": "order-1001-payment"}
    body = None
    if method == "POST":
        headers["Content-Type"], body = "application/json", json.dumps(order()).encode()
    connection = Connection(app)
    connection.send(raw.request(method, path, headers, body, host="localhost"))
    await turns()
    assert connection.statuses == [503]
    assert b'"store_unavailable"' in connection.transport.written
    assert b"\r\nretry-after: 1\r\n" in connection.transport.written
    assert not store.additions  # of the sandbox, which would take as long again
