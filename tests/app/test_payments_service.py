"""What the service makes of a store that lets others in between, or fails."""

import asyncio
import io
from typing import Any

import httpx
import pytest

from paymock.app.catalog_file import load_catalog
from paymock.app.control_service import ControlService
from paymock.app.payments_service import PaymentsService
from paymock.app.sandboxes import KeyedRequest, Sandboxes, new_metadata
from paymock.resources.records import StoreMetadata
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.json_decoding import fingerprint
from paymock.schemas.public import Payment
from paymock.settings import Settings
from paymock.stores.base import AddResult
from paymock.stores.memory import MemoryStore
from paymock.web.app import create_app
from paymock.web.telemetry.access_log import RequestLog
from tests.support.client import order
from tests.support.clock import ManualClock
from tests.support.specification import COURSES
from tests.support.stores import SharedStore
from tests.support.use_cases import SANDBOX
from tests.support.virtual_time import run

SECRET = "a secret in the message of an exception"


class FailingStore(MemoryStore):
    """Fails at every step."""

    def __init__(self, error: Exception) -> None:
        super().__init__()
        self._error = error

    async def get(self, sandbox: str, *keys: str) -> list[bytes | None]:
        raise self._error

    async def add(self, *args: Any, **options: Any) -> AddResult:
        raise self._error

    async def page(self, *args: Any, **options: Any) -> list[tuple[int, bytes]]:
        raise self._error

    async def append(self, *args: Any, **options: Any) -> None:
        return None

    async def ping(self) -> None:
        raise self._error


def origin(speed: float = 1) -> StoreMetadata:
    return new_metadata(ManualClock()(), speed, "tests")


def request(path: str, body: Any) -> KeyedRequest:
    return KeyedRequest(SANDBOX, "order-1001-payment", fingerprint("POST", path, body), body)


def test_of_creations_that_interleave_in_the_store_one_is_stored_and_all_see_it() -> None:
    async def check() -> None:
        store = SharedStore()
        service = PaymentsService(load_catalog(None), 100, Sandboxes(store, ManualClock(), origin()))
        creations = [
            service.create_payment(request("/v1/payments", order()), "happy_path") for _ in range(64)
        ]
        outcomes = await asyncio.gather(*creations)
        assert [payment.replayed for payment in outcomes].count(False) == 1
        assert len({created.payment.json for created in outcomes}) == 1
        assert len(await store.page(SANDBOX, "payment", limit=99)) == 1

    run(check())


def test_of_different_creations_that_interleave_under_one_key_one_wins_and_the_others_conflict() -> None:
    async def check() -> None:
        store = SharedStore()
        service = PaymentsService(load_catalog(None), 100, Sandboxes(store, ManualClock(), origin()))
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

    run(check())


def test_a_thousand_parallel_runs_of_all_scenarios_give_the_same_transcript() -> None:
    """Apart from ids and addresses, which differ; the runs interleave at every step of the store."""

    async def check() -> None:
        sandboxes = Sandboxes(SharedStore(), ManualClock(), origin(speed=0))
        catalog = load_catalog(None)
        service, control = PaymentsService(catalog, 100, sandboxes), ControlService(catalog, sandboxes)

        async def run(sandbox: str) -> list[object]:
            transcript: list[object] = []
            for scenario in SCENARIOS:
                key = f"key-of-{scenario}"
                creation = KeyedRequest(sandbox, key, fingerprint("POST", "/v1/payments", scenario), order())
                created = await service.create_payment(creation, scenario)
                for _ in COURSES[scenario][1:]:
                    payment = await control.advance_payment(sandbox, created.payment.id, {"to": "next"})
                    assert isinstance(payment, Payment)
                    attempt = payment.attempts[0]
                    transcript.append((scenario, payment.status, attempt.status, attempt.funding))
            return transcript

        transcripts = await asyncio.gather(*(run(sandbox_of(f"mk_test_{number}")) for number in range(1000)))
        assert all(transcript == transcripts[0] for transcript in transcripts)
        assert len({id(transcript) for transcript in transcripts}) == 1000

    run(check())


def ask(error: Exception, log: RequestLog, method: str, path: str) -> httpx.Response:
    settings = Settings()
    app = create_app(settings, load_catalog(None), FailingStore(error), origin(), ManualClock(), log)

    async def exchange() -> httpx.Response:
        async with httpx.AsyncClient(
            transport=httpx.ASGITransport(app), base_url="http://localhost"
        ) as client:
            headers = {"Authorization": "Bearer mk_test_demo", "Idempotency-Key": "order-1001-payment"}
            return await client.request(
                method, path, headers=headers, json=order() if method == "POST" else None
            )

    return run(exchange())


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
def test_without_its_store_the_service_says_so_and_when_to_come_back(method: str, path: str) -> None:
    response = ask(PaymockError("store_unavailable"), RequestLog(io.StringIO()), method, path)
    assert (response.status_code, response.json()["error"]["code"]) == (503, "store_unavailable")
    assert response.headers["retry-after"] == "1"


@pytest.mark.parametrize("path", ["/livez", "/v1/chains", "/openapi.yaml"])
def test_what_needs_no_store_goes_on_without_it(path: str) -> None:
    response = ask(PaymockError("store_unavailable"), RequestLog(io.StringIO()), "GET", path)
    assert response.status_code == 200


@pytest.mark.parametrize("form", ["text", "json"])
def test_a_defect_is_answered_in_the_envelope_and_logged_without_its_message(form: str) -> None:
    out = io.StringIO()
    response = ask(RuntimeError(SECRET), RequestLog(out, form), "GET", PAYMENT)
    assert (response.status_code, response.json()["error"]["code"]) == (500, "internal_error")
    assert "RuntimeError" in out.getvalue()
    assert response.headers["x-request-id"] in out.getvalue()
    assert SECRET not in out.getvalue() + response.text
    assert "Traceback" not in response.text
