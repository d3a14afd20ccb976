"""The use cases of `/v1`: take a snapshot, compute, apply."""

from collections.abc import Mapping

from msgspec import Struct

from paymock.app.faults import Injection
from paymock.app.lookup import find_payment
from paymock.payments import endpoints, records, views
from paymock.payments.catalog import Catalog
from paymock.payments.records import EndpointRecord, PaymentRecord
from paymock.payments.timelines import RenderedPayment, rendered_at_creation
from paymock.rules.errors import PaymockError
from paymock.rules.faults import FaultTarget
from paymock.rules.identifiers import KEY_LIFETIME, PAYMENT_PREFIX
from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS, Scenario, scenario_of
from paymock.sandbox.sandboxes import Accepted, Created, KeyedRequest, Sandboxes, SandboxSnapshot
from paymock.schemas.catalog import AssetList, ChainList
from paymock.schemas.public import CREATE_PAYMENT, CreatedWebhookEndpoint, WebhookEndpointList

# Annotations of inner functions are evaluated at each call, which takes 5 us for these.
_AcceptedPayment = Accepted[PaymentRecord] | None
_AcceptedEndpoint = Accepted[EndpointRecord] | None


class CreatedPayment(Struct, frozen=True):
    """A payment as it was created, its scenario, whether an earlier request created it, and whether the real
    service has forgotten its key.
    """

    payment: RenderedPayment
    scenario: str
    replayed: bool
    key_expired: bool


class PaymentsService:
    """The operations of `/v1`, without HTTP. Every method works within one sandbox."""

    def __init__(
        self,
        catalog: Catalog,
        fee_bps: int,
        sandboxes: Sandboxes,
        scenarios: Mapping[str, Scenario] = SCENARIOS,
    ) -> None:
        self.scenarios = scenarios
        self._catalog = catalog
        self._fee_bps = fee_bps
        self._sandboxes = sandboxes

    def chains(self) -> ChainList:
        """Return the supported chains. Specification: "GET /v1/chains"."""
        return ChainList(data=list(self._catalog.chains.values()))

    def assets(self, chain: str) -> AssetList:
        """Return the assets of a chain. Raises PaymockError `chain_not_found`. Specification: "GET
        /v1/chains/{chain}/assets".
        """
        assets = self._catalog.assets(chain)
        if assets is None:
            raise PaymockError("chain_not_found")
        return AssetList(data=list(assets.values()))

    async def create_payment(
        self, request: KeyedRequest, scenario: str | None, injection: Injection
    ) -> CreatedPayment:
        """Return the payment as it was created, and whether this request repeats an earlier one.

        Without a `scenario`, a name in `scenarios`, it takes the next override of its sandbox, or
        DEFAULT_SCENARIO. A repeated request shows the payment as it was at its creation, so no reply is ever
        stored. Raises PaymockError `validation_failed`, `capacity_exceeded`, or the idempotency conflict; and
        Prevented. Specification: "POST /v1/payments", "Limits".
        """

        def new(token: str, snapshot: SandboxSnapshot, chosen: Scenario) -> PaymentRecord:
            creation = views.CreationContext(token, request.fingerprint, chosen, snapshot.now)
            return views.create_record(request.body, creation, self._catalog, self._fee_bps)

        async def accept(token: str, snapshot: SandboxSnapshot) -> _AcceptedPayment:
            record = new(token, snapshot, self.scenarios[scenario or DEFAULT_SCENARIO])
            target = FaultTarget(CREATE_PAYMENT, record.order_id, PAYMENT_PREFIX + token)
            decision = await injection.decide(snapshot, target, takes_overrides=scenario is None)
            if decision is None:
                return None
            if decision.scenario is not None:
                chosen = scenario_of(decision.scenario.value, decision.scenario.custom_scenario)
                record = new(token, snapshot, chosen)
            return record, decision.record

        created = await self._sandboxes.create(request, PaymentRecord, accept)
        injection.added(created)
        record = created.record
        timeline = self._sandboxes.timelines.get(created.stored, None) if created.replayed else None
        payment = timeline.at_creation if timeline else rendered_at_creation(record)
        return CreatedPayment(payment, record.scenario, created.replayed, _key_expired(created))

    async def payment(self, sandbox: str, payment_id: str, injection: Injection) -> RenderedPayment:
        """Return the payment in its current state. Raises PaymockError `payment_not_found`. Specification:
        "GET /v1/payments/{payment_id}" and the attempts.
        """
        payment = await find_payment(self._sandboxes, sandbox, payment_id)
        injection.seen = payment.sandbox.record
        return payment.rendered

    async def create_endpoint(
        self, request: KeyedRequest, injection: Injection
    ) -> tuple[CreatedWebhookEndpoint, bool, bool]:
        """Return the endpoint as it was created, with its secret, whether this request repeats an earlier
        one, and whether the real service has forgotten its key.

        Raises PaymockError `validation_failed`, `capacity_exceeded`, or the idempotency conflict; and
        Prevented. Specification: "POST /v1/webhooks".
        """

        async def accept(token: str, snapshot: SandboxSnapshot) -> _AcceptedEndpoint:
            record = endpoints.create_record(request.body, token, request.fingerprint, snapshot.now)
            target = FaultTarget("createWebhookEndpoint")
            decision = await injection.decide(snapshot, target, takes_overrides=False)
            return decision and (record, decision.record)

        created = await self._sandboxes.create(request, EndpointRecord, accept, limit=endpoints.MAX_ENDPOINTS)
        injection.added(created)
        return endpoints.render_created(created.record), created.replayed, _key_expired(created)

    async def endpoints(self, sandbox: str) -> WebhookEndpointList:
        """Return the webhook endpoints, oldest first. Specification: "GET /v1/webhooks"."""
        page = await self._sandboxes.page(sandbox, EndpointRecord.KIND, limit=endpoints.MAX_ENDPOINTS)
        oldest_first = (records.decode(value) for _, value in reversed(page))
        return WebhookEndpointList(
            data=[endpoints.render(record) for record in oldest_first if isinstance(record, EndpointRecord)]
        )

    async def ready(self) -> None:
        """Return when requests can be served. Raises PaymockError `store_unavailable`."""
        await self._sandboxes.ping()


def _key_expired(created: Created[PaymentRecord] | Created[EndpointRecord]) -> bool:
    return created.replayed and created.snapshot.now - created.record.created_at > KEY_LIFETIME
