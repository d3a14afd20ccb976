"""The use cases of `/v1`: gather, compute, apply."""

from collections.abc import Callable
from typing import Any, NamedTuple, TypeVar

from paymock.core import endpoints, identity, payments, records
from paymock.core.catalog import Catalog
from paymock.core.errors import PaymockError
from paymock.core.records import EndpointRecord, PaymentRecord, SimulationRecord
from paymock.core.wire import AssetList, AttemptList, ChainList, Endpoint, EndpointList, Payment
from paymock.sandboxes import Sandboxes, simulation_key

R = TypeVar("R", PaymentRecord, EndpointRecord)


class KeyedRequest(NamedTuple):
    """A state-changing request: whose it is, its idempotency key, what tells it from others, and its body."""

    sandbox: str
    idempotency_key: str
    fingerprint: bytes
    body: Any


class Service:
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

    async def create_payment(self, request: KeyedRequest, scenario: str) -> tuple[Payment, bool]:
        """The payment as it was created, and whether this request repeats an earlier one.

        A repeated request shows the payment as it was at its creation, so no reply is ever stored. Raises
        PaymockError `validation_failed`, or the idempotency conflict. Specification: "POST /v1/payments",
        "Limits".
        """

        def accept(token: str, now: int) -> PaymentRecord:
            creation = payments.Creation(token, request.fingerprint, scenario, now)
            return payments.accept(request.body, creation, self._catalog, self._fee_bps)

        record, replayed = await self._create(request, PaymentRecord, accept)
        return payments.render(record, record.created_at), replayed

    async def payment(self, sandbox: str, payment_id: str) -> Payment:
        """The payment as it stands now. Raises PaymockError `payment_not_found`.
        Specification: "GET /v1/payments/{payment_id}"."""
        token = identity.token_in(payment_id, identity.PAYMENT)
        if not token:
            raise PaymockError("payment_not_found")
        gathered = await self._sandboxes.gather(sandbox, token, simulation_key(token))
        stored, simulated = gathered.values
        record = records.decode(stored) if stored else None
        if not isinstance(record, PaymentRecord):
            raise PaymockError("payment_not_found")
        return payments.render(record, gathered.now, records.decode_as(SimulationRecord, simulated))

    async def attempts(self, sandbox: str, payment_id: str) -> AttemptList:
        """The attempts of a payment as they stand now. Raises PaymockError `payment_not_found`.
        Specification: "GET /v1/payments/{payment_id}/attempts"."""
        return AttemptList(data=(await self.payment(sandbox, payment_id)).attempts)

    async def create_endpoint(self, request: KeyedRequest) -> tuple[Endpoint, bool]:
        """The endpoint as it was created, with its secret, and whether this request repeats an earlier one.

        Raises PaymockError `validation_failed`, `capacity_exceeded`, or the idempotency conflict.
        Specification: "POST /v1/webhooks".
        """

        def accept(token: str, now: int) -> EndpointRecord:
            return endpoints.accept(request.body, token, request.fingerprint, now)

        record, replayed = await self._create(request, EndpointRecord, accept, limit=endpoints.MAX_ENDPOINTS)
        return endpoints.render(record, with_secret=True), replayed

    async def endpoints(self, sandbox: str) -> EndpointList:
        """The webhook endpoints, oldest first. Specification: "GET /v1/webhooks"."""
        page = await self._sandboxes.store.page(sandbox, EndpointRecord.KIND, limit=endpoints.MAX_ENDPOINTS)
        oldest_first = (records.decode(value) for _, value in reversed(page))
        found = [record for record in oldest_first if isinstance(record, EndpointRecord)]
        return EndpointList(data=[endpoints.render(record, with_secret=False) for record in found])

    async def ready(self) -> None:
        """Returns when requests can be served. Raises PaymockError `store_unavailable`."""
        await self._sandboxes.store.ping()

    async def _create(
        self, request: KeyedRequest, kind: type[R], accept: Callable[[str, int], R], limit: int | None = None
    ) -> tuple[R, bool]:
        """The record behind an idempotency key, and whether it was there before.

        The look-up comes before `accept`, which depends on time: a replay after `expires_at` is still a
        replay. The key's token is the record's own key, so `add` is both the insert and the idempotency
        check, and of any number of concurrent duplicates one is stored.
        """
        gathered = await self._sandboxes.gather(request.sandbox)
        token = self._sandboxes.token(request.sandbox, gathered.record, request.idempotency_key)
        store = self._sandboxes.store
        [stored] = await store.get(request.sandbox, token)
        if stored is None:
            record = accept(token, gathered.now)
            stored = await store.add(
                request.sandbox, token, records.encode(record), kind=kind.KIND, limit=limit
            )
            if stored is None:
                return record, False
        existing = records.decode(stored)
        if existing.fingerprint != request.fingerprint or not isinstance(existing, kind):
            raise PaymockError("idempotency_key_reused_with_different_payload")
        return existing, True
