"""The use cases of `/v1`: take a snapshot, compute, apply."""

from collections.abc import Mapping

from msgspec import Struct
from msgspec.structs import replace

from paymock.app.lookup import find_payment
from paymock.app.overrides import take_scenario
from paymock.payments import records, views
from paymock.payments.creation import CreationContext, create_endpoint_record, create_record
from paymock.payments.files import Catalog
from paymock.payments.records import EndpointRecord, PaymentRecord, SandboxRecord
from paymock.payments.timelines import RenderedPayment, rendered
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import KEY_LIFETIME
from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS, PaymentStatus, Scenario
from paymock.rules.timeline import CREATED
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import yield_turn
from paymock.sandbox.snapshot import KeyedRequest, SandboxSnapshot
from paymock.schemas.catalog import AssetList, ChainList
from paymock.schemas.public import CreatedWebhookEndpoint, WebhookEndpointList
from paymock.stores.base import companion_key

# Annotations of inner functions are evaluated at each call, which takes 5 us for these.
_NewPayment = tuple[PaymentRecord, SandboxRecord]
_NewEndpoint = tuple[EndpointRecord, SandboxRecord]


class PaymentCreation(Struct, frozen=True):
    """A payment as it was created, its scenario, whether an earlier request created it, whether the real
    service has forgotten its key, and the status of a payment of an earlier request by now, if known.
    """

    payment: RenderedPayment
    scenario: str
    replayed: bool
    key_expired: bool
    status: PaymentStatus | None


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
        """Specification: "GET /v1/chains"."""
        return ChainList(data=list(self._catalog.chains.values()))

    def assets(self, chain: str) -> AssetList:
        """Raises PaymockError `chain_not_found`. Specification: "GET /v1/chains/{chain}/assets"."""
        assets = self._catalog.assets(chain)
        if assets is None:
            raise PaymockError("chain_not_found")
        return AssetList(data=list(assets.values()))

    async def create_payment(
        self, request: KeyedRequest, scenario: str | None, unless_rule_for: str | None = None
    ) -> PaymentCreation:
        """Return the payment as it was created, and whether this request repeats an earlier one.

        Without a `scenario`, a name in `scenarios`, it takes the next override of its sandbox, or
        DEFAULT_SCENARIO. A repeated request shows the payment as it was at its creation, so no reply is ever
        stored. Raises PaymockError `validation_failed`, `capacity_exceeded`, or the idempotency conflict; and
        RuleFound. Specification: "POST /v1/payments", "Limits".
        """

        def new(token: str, snapshot: SandboxSnapshot) -> _NewPayment:
            sandbox, chosen = snapshot.record, self.scenarios[scenario or DEFAULT_SCENARIO]
            context = CreationContext(token, request.fingerprint, chosen, snapshot.now, snapshot.real)
            record = create_record(request.body, context, self._catalog, self._fee_bps)
            self._sandboxes.owner_limits.check_share(request.sandbox)
            if scenario is None and sandbox.scenarios:
                sandbox, override = take_scenario(sandbox, record.order_id, record.metadata or {})
                if override is not None:
                    name, custom = override.value, override.custom_scenario
                    record = replace(record, scenario=name, custom_scenario=custom)
            return record, sandbox

        created = await self._sandboxes.create(request, PaymentRecord, new, unless_rule_for=unless_rule_for)
        timeline, status, key_expired = None, None, False
        if not created.replayed:
            self._sandboxes.owner_limits.count_payment(request.sandbox)
        else:
            timeline = self._sandboxes.timelines.get(created.stored, None)
            [simulation] = await self._sandboxes.get(request.sandbox, companion_key(created.record.token))
            present = self._sandboxes.timelines.get(created.stored, simulation) if simulation else timeline
            now = created.snapshot.now
            key_expired = now - created.record.created_at > KEY_LIFETIME
            if present:
                status = present.status_at(present.age(now))
        payment = timeline.at_creation if timeline else rendered(created.record, CREATED)
        return PaymentCreation(payment, created.record.scenario, created.replayed, key_expired, status)

    async def payment(self, sandbox: str, payment_id: str) -> RenderedPayment:
        """Raises PaymockError `payment_not_found`. Specification: "GET /v1/payments/{payment_id}"."""
        payment = await find_payment(self._sandboxes, sandbox, payment_id)
        if payment.timeline.scripted is None:
            await yield_turn()
        return payment.timeline.rendered_at(payment.elapsed)

    async def create_endpoint(
        self, request: KeyedRequest, unless_rule_for: str | None = None
    ) -> tuple[CreatedWebhookEndpoint, bool, bool]:
        """Return the endpoint as it was created, with its secret, whether this request repeats an earlier
        one, and whether the real service has forgotten its key. Raises PaymockError `validation_failed`,
        `capacity_exceeded`, or the idempotency conflict; and RuleFound. Specification: "POST /v1/webhooks".
        """

        def new(token: str, snapshot: SandboxSnapshot) -> _NewEndpoint:
            record = create_endpoint_record(request.body, token, request.fingerprint, snapshot.now)
            return self._sandboxes.owner_limits.check_room(request.sandbox, token, record), snapshot.record

        created = await self._sandboxes.create(
            request, EndpointRecord, new, limit=views.MAX_ENDPOINTS, unless_rule_for=unless_rule_for
        )
        if not created.replayed:
            size = len(created.stored)
            self._sandboxes.owner_limits.record_size(request.sandbox, created.record.token, size)
        key_expired = created.replayed and created.snapshot.now - created.record.created_at > KEY_LIFETIME
        return views.render_created_endpoint(created.record), created.replayed, key_expired

    async def endpoints(self, sandbox: str) -> WebhookEndpointList:
        """Return the webhook endpoints, oldest first. Specification: "GET /v1/webhooks"."""
        page = await self._sandboxes.page(sandbox, EndpointRecord.KIND, limit=views.MAX_ENDPOINTS)
        oldest_first = (records.decode(value) for _, value in reversed(page))
        data = [views.render_endpoint(one) for one in oldest_first if isinstance(one, EndpointRecord)]
        return WebhookEndpointList(data=data)

    async def ready(self) -> None:
        """Return when requests can be served. Raises PaymockError `store_unavailable`."""
        await self._sandboxes.ping()
