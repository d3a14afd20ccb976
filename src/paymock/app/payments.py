"""The use cases of `/v1`: take a snapshot, compute, apply."""

from collections.abc import Mapping
from contextlib import suppress

from msgspec import Struct
from msgspec.structs import replace

from paymock.app.faults import RulesDue
from paymock.app.lookup import find_payment
from paymock.app.overrides import FaultDue, first_for, without
from paymock.payments import endpoints, records
from paymock.payments import payment as payments
from paymock.payments.catalog import Catalog
from paymock.payments.records import EndpointRecord, PaymentRecord, SandboxRecord
from paymock.payments.timelines import RenderedPayment, rendered_at_creation
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import DEFAULT_SCENARIO, SCENARIOS, Scenario
from paymock.sandbox.sandboxes import KeyedRequest, Sandboxes, SandboxSnapshot
from paymock.schemas.catalog import AssetList, ChainList
from paymock.schemas.public import CreatedWebhookEndpoint, WebhookEndpointList


class CreatedPayment(Struct, frozen=True):
    """A payment as it was created, its scenario, and whether an earlier request created it."""

    payment: RenderedPayment
    scenario: str
    replayed: bool


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
        self,
        request: KeyedRequest,
        scenario: str | None,
        *,
        rules_counted: bool = False,
        fault_applied: bool = False,
    ) -> CreatedPayment:
        """Return the payment as it was created, and whether this request repeats an earlier one.

        Without a `scenario`, a name in `scenarios`, it takes the next override of its sandbox, or
        DEFAULT_SCENARIO, and the next fault unless one has been applied. A repeated request shows the payment
        as it was at its creation, so no reply is ever stored. Raises PaymockError `validation_failed`,
        `capacity_exceeded`, or the idempotency conflict; RulesDue unless the rules have counted the request;
        and FaultDue. Specification: "POST /v1/payments", "Limits".
        """

        def accept(token: str, snapshot: SandboxSnapshot) -> tuple[PaymentRecord, SandboxRecord]:
            sandbox = snapshot.record
            _check_rules(sandbox, counted=rules_counted)
            order_id = payments.order_of(request.body) if sandbox.scenarios or sandbox.faults else None
            pending = first_for(sandbox.scenarios, order_id) if scenario is None else None
            if pending:
                chosen = pending.course or SCENARIOS[pending.value]
            else:
                chosen = self.scenarios[scenario or DEFAULT_SCENARIO]
            creation = payments.Creation(token, request.fingerprint, chosen, snapshot.now)
            record = payments.create_record(request.body, creation, self._catalog, self._fee_bps)
            fault = first_for(sandbox.faults, order_id)
            if fault and scenario is None and not fault_applied:
                raise FaultDue(fault)
            if pending:
                sandbox = replace(sandbox, scenarios=without(sandbox.scenarios, pending))
            return record, sandbox

        created = await self._sandboxes.create(request, PaymentRecord, accept)
        _check_rules(created.sandbox, counted=rules_counted)
        record = created.record
        timeline = self._sandboxes.timelines.get(created.stored, None) if created.replayed else None
        payment = timeline.at_creation if timeline else rendered_at_creation(record)
        return CreatedPayment(payment, record.scenario, created.replayed)

    async def payment(self, sandbox: str, payment_id: str, *, rules_counted: bool = False) -> RenderedPayment:
        """Return the payment in its current state. Raises PaymockError `payment_not_found`; RulesDue unless
        the rules have counted the request. Specification: "GET /v1/payments/{payment_id}" and the attempts.
        """
        payment = await find_payment(self._sandboxes, sandbox, payment_id)
        _check_rules(payment.sandbox.record, counted=rules_counted)
        return payment.rendered

    async def check_rules(self, sandbox: str) -> None:
        """Check the fault rules for a request that needs no data of its sandbox, and is answered even if the
        store is unavailable. Raises RulesDue.
        """
        with suppress(PaymockError):
            _check_rules((await self._sandboxes.snapshot(sandbox)).record, counted=False)

    async def create_endpoint(
        self, request: KeyedRequest, *, rules_counted: bool = False
    ) -> tuple[CreatedWebhookEndpoint, bool]:
        """Return the endpoint as it was created, with its secret, and whether this request repeats an earlier
        one.

        Raises PaymockError `validation_failed`, `capacity_exceeded`, or the idempotency conflict; RulesDue
        unless the rules have counted the request. Specification: "POST /v1/webhooks".
        """

        def accept(token: str, snapshot: SandboxSnapshot) -> tuple[EndpointRecord, SandboxRecord]:
            _check_rules(snapshot.record, counted=rules_counted)
            record = endpoints.create_record(request.body, token, request.fingerprint, snapshot.now)
            return record, snapshot.record

        created = await self._sandboxes.create(request, EndpointRecord, accept, limit=endpoints.MAX_ENDPOINTS)
        _check_rules(created.sandbox, counted=rules_counted)
        return endpoints.render_created(created.record), created.replayed

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


def _check_rules(sandbox: SandboxRecord, *, counted: bool) -> None:
    """Raise RulesDue if the sandbox has fault rules that have not counted the request yet."""
    if sandbox.rules and not counted:
        raise RulesDue
