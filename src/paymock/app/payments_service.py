"""The use cases of `/v1`: gather, compute, apply."""

from msgspec import Struct
from msgspec.structs import replace

from paymock.app.overrides import FaultDue, without_first
from paymock.app.payment_lookup import find
from paymock.app.sandboxes import KeyedRequest, Sandboxes, SandboxSnapshot
from paymock.resources import endpoints, payments, records
from paymock.resources.catalog import Catalog
from paymock.resources.records import EndpointRecord, PaymentRecord, SandboxRecord
from paymock.resources.timelines import json_at_creation
from paymock.rules import identifiers
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import DEFAULT_SCENARIO
from paymock.schemas.catalog import AssetList, ChainList
from paymock.schemas.public import AttemptList, Endpoint, EndpointList


class CreatedPayment(Struct, frozen=True):
    """A payment as it was created: its id, its JSON, its scenario, and whether it was there before."""

    id: str
    json: bytes
    scenario: str
    replayed: bool


class PaymentsService:
    """What the API can do, without HTTP. Every method works within one sandbox."""

    def __init__(self, catalog: Catalog, fee_bps: int, sandboxes: Sandboxes) -> None:
        self._catalog = catalog
        self._fee_bps = fee_bps
        self._sandboxes = sandboxes

    def chains(self) -> ChainList:
        """The supported chains. Specification: "GET /v1/chains"."""
        return ChainList(data=list(self._catalog.chains.values()))

    def assets(self, chain: str) -> AssetList:
        """The assets of a chain. Raises PaymockError `chain_not_found`. Specification: "GET
        /v1/chains/{chain}/assets".
        """
        assets = self._catalog.assets(chain)
        if assets is None:
            raise PaymockError("chain_not_found")
        return AssetList(data=list(assets.values()))

    async def create_payment(
        self, request: KeyedRequest, scenario: str | None, *, fault_applied: bool = False
    ) -> CreatedPayment:
        """The payment as it was created, and whether this request repeats an earlier one.

        Without a `scenario`, it takes the next of its sandbox, or DEFAULT_SCENARIO, and the next fault unless
        a fault has been applied. A repeated request shows the payment as it was at its creation, so no reply
        is ever stored. Raises PaymockError `validation_failed`, `capacity_exceeded`, or the idempotency
        conflict, and FaultDue. Specification: "POST /v1/payments", "Limits".
        """

        def accept(token: str, now: SandboxSnapshot) -> tuple[PaymentRecord, SandboxRecord]:
            sandbox = now.record
            pending = sandbox.scenarios if scenario is None else ()
            chosen = scenario or (pending[0].value if pending else DEFAULT_SCENARIO)
            creation = payments.Creation(token, request.fingerprint, chosen, now.now)
            record = payments.accept(request.body, creation, self._catalog, self._fee_bps)
            if sandbox.faults and scenario is None and not fault_applied:
                raise FaultDue(sandbox.faults[0])
            return record, replace(sandbox, scenarios=without_first(pending)) if pending else sandbox

        made = await self._sandboxes.create(request, PaymentRecord, accept)
        known = self._sandboxes.timelines.of(made.stored, None) if made.replayed else None
        json = known.json_at(0) if known else json_at_creation(made.record)
        return CreatedPayment(
            identifiers.PAYMENT + made.record.token, json, made.record.scenario, made.replayed
        )

    async def payment(self, sandbox: str, payment_id: str) -> bytes:
        """The payment as it stands now, as JSON. Raises PaymockError `payment_not_found`.
        Specification: "GET /v1/payments/{payment_id}"."""
        found = await find(self._sandboxes, sandbox, payment_id)
        return found.json

    async def attempts(self, sandbox: str, payment_id: str) -> AttemptList:
        """The attempts of a payment as they stand now. Raises PaymockError `payment_not_found`.
        Specification: "GET /v1/payments/{payment_id}/attempts"."""
        return AttemptList(data=(await find(self._sandboxes, sandbox, payment_id)).payment.attempts)

    async def create_endpoint(self, request: KeyedRequest) -> tuple[Endpoint, bool]:
        """The endpoint as it was created, with its secret, and whether this request repeats an earlier one.

        Raises PaymockError `validation_failed`, `capacity_exceeded`, or the idempotency conflict.
        Specification: "POST /v1/webhooks".
        """

        def accept(token: str, now: SandboxSnapshot) -> tuple[EndpointRecord, SandboxRecord]:
            return endpoints.accept(request.body, token, request.fingerprint, now.now), now.record

        made = await self._sandboxes.create(request, EndpointRecord, accept, limit=endpoints.MAX_ENDPOINTS)
        return endpoints.render(made.record, with_secret=True), made.replayed

    async def endpoints(self, sandbox: str) -> EndpointList:
        """The webhook endpoints, oldest first. Specification: "GET /v1/webhooks"."""
        page = await self._sandboxes.store.page(sandbox, EndpointRecord.KIND, limit=endpoints.MAX_ENDPOINTS)
        oldest_first = (records.decode(value) for _, value in reversed(page))
        found = [record for record in oldest_first if isinstance(record, EndpointRecord)]
        return EndpointList(data=[endpoints.render(record, with_secret=False) for record in found])

    async def ready(self) -> None:
        """Returns when requests can be served. Raises PaymockError `store_unavailable`."""
        await self._sandboxes.store.ping()
