"""The application without a socket, and a store with many payments, for measurements in CPU time."""

import asyncio
import os
from collections.abc import Iterable

import msgspec

from harness.api_client import API_KEY, ORDER
from paymock.http.requests import Body, Request
from paymock.payments import creation as creations
from paymock.payments import records
from paymock.payments.creation import CreationContext
from paymock.payments.files import load_catalog
from paymock.payments.records import PaymentRecord
from paymock.rules import identifiers
from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS
from paymock.sandbox.clock import SystemClock
from paymock.sandbox.metadata import new_metadata
from paymock.sandbox.sandboxes import Sandboxes
from paymock.settings import Settings
from paymock.stores.base import Store
from paymock.web.app import create_applications
from paymock.web.application import Application
from paymock.web.telemetry.access_log import RequestLog

TASKS = 256


def application(store: Store) -> Application:
    """The application on this store, configured as by `paymock serve --no-access-log`."""
    clock, log = SystemClock(print), RequestLog(None, requests=False)
    settings, sandboxes = Settings(), Sandboxes(store, clock, new_metadata(clock(), 1, "inside"))
    return create_applications(settings, settings.addresses, sandboxes, clock, log)[0]


class Client:
    """A client of the application with one API key."""

    def __init__(self, app: Application, api_key: str = API_KEY) -> None:
        self._app = app
        self._headers = {b"host": b"127.0.0.1:8402", b"authorization": b"Bearer " + api_key.encode()}

    async def get(self, path: str) -> int:
        """The status of the reply."""
        return await self._request(Request("GET", path, self._headers))

    async def post(self, path: str, body: bytes, idempotency_key: str) -> int:
        """The status of the reply."""
        headers = {b"content-type": b"application/json", b"idempotency-key": idempotency_key.encode()}
        return await self._request(Request("POST", path, {**self._headers, **headers}, body=Body(body)))

    async def _request(self, request: Request) -> int:
        response, _ = await self._app.respond(request)
        return response.status


def token(number: int) -> str:
    """The token of the payment with this number."""
    return identifiers.derive_token(b"inside", "", str(number))


def key_of_sandbox(number: int) -> str:
    """The API key of the sandbox with this number; that of number 0 is API_KEY."""
    return f"{API_KEY}_{number}" if number else API_KEY


async def fill(store: Store, numbers: Iterable[int], sandboxes: int = 1) -> None:
    """Stores a completed payment for each number, in so many sandboxes by turns."""
    now = SystemClock(print)() - 3_600_000
    creation = CreationContext("", b"", SCENARIOS[DEFAULT_SCENARIO], now)
    record = creations.create_record(msgspec.json.decode(ORDER), creation, load_catalog(None), 100)
    names = [identifiers.sandbox_of(key_of_sandbox(number)) for number in range(sandboxes)]
    pending = iter(numbers)

    async def add() -> None:
        for number in pending:
            own = msgspec.structs.replace(record, token=token(number), fingerprint=os.urandom(16))
            value = records.encode(own)
            sandbox = names[number % sandboxes]
            await store.add(sandbox, (own.token, value, PaymentRecord.KIND), expected_state=None)

    await asyncio.gather(*(add() for _ in range(TASKS)))
