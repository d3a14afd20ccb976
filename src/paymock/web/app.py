"""Assembles the application: all routes with their handlers."""

from collections.abc import Mapping
from functools import partial

from paymock.app.checkout import CheckoutService
from paymock.app.control import ControlService
from paymock.app.faults import FaultInjection
from paymock.app.payments import PaymentsService
from paymock.http.auth import Keyring
from paymock.http.hosts import AllowedHosts
from paymock.http.routing import Handler, Route, Routes
from paymock.payments.catalog import Catalog
from paymock.payments.records import StoreMetadata
from paymock.rules.scenarios import SCENARIOS, Scenario
from paymock.sandbox.clock import Clock
from paymock.sandbox.sandboxes import Sandboxes
from paymock.settings import MEMORY_STORE, Settings
from paymock.stores.base import Store
from paymock.web.application import Application
from paymock.web.documents import CONTROL, PUBLIC, OpenApiDocument
from paymock.web.operations import checkout, control, health, public
from paymock.web.operations.faults import inject_fault
from paymock.web.operations.operations import handler_of
from paymock.web.pages.fragments import Fragments
from paymock.web.pages.handlers import (
    LLMS,
    PAGES,
    DashboardPage,
    LlmsTxt,
    checkout_page,
    redirect_to_swagger,
    static_files,
    unknown_page,
)
from paymock.web.telemetry.access_log import RequestLog


def create_app(
    settings: Settings,
    catalog: Catalog,
    store: Store,
    metadata: StoreMetadata,
    clock: Clock,
    log: RequestLog,
    scenarios: Mapping[str, Scenario] = SCENARIOS,
    keyring: Keyring | None = None,
) -> Application:
    """Return the service. `metadata` is that of `store`; `scenarios` are those that
    new payments can follow, by name.
    """
    sandboxes = Sandboxes(store, clock, metadata)
    payments_service = PaymentsService(catalog, settings.fee_bps, sandboxes, scenarios)
    checkout_service = CheckoutService(catalog, sandboxes)
    control_service = (
        ControlService(catalog, sandboxes, scenarios, log.without_secrets) if settings.control else None
    )
    fault_injection = FaultInjection(sandboxes, payments_service)
    keyring = keyring or Keyring(settings.api_keys)
    in_memory = settings.store == MEMORY_STORE
    routes: Routes[Route] = Routes()
    for operation in public.OPERATIONS:
        handler: Handler = handler_of(operation, payments_service)
        if control_service is not None:
            handler = partial(inject_fault, fault_injection, carry_out=handler)
        route = Route(handler, needs_key=True, operation=operation.operation_id)
        routes.add(operation.method, operation.path, route)
    for operation in health.OPERATIONS:
        handler = handler_of(operation, payments_service)
        routes.add(operation.method, operation.path, Route(handler))
    for operation in checkout.OPERATIONS:
        handler = handler_of(operation, checkout_service)
        routes.add(operation.method, operation.path, Route(handler))
    routes.add("GET", "/openapi.yaml", Route(OpenApiDocument(PUBLIC, catalog, scenarios)))
    llms_txt = LlmsTxt(catalog, scenarios, control=settings.control, open_mode=settings.open_mode)
    routes.add("GET", LLMS, Route(llms_txt))
    if control_service is not None:
        for operation in control.OPERATIONS:
            handler = handler_of(operation, control_service)
            routes.add(operation.method, operation.path, Route(handler, needs_key=True))
        routes.add("GET", "/_mock/events", Route(partial(control.events, control_service), needs_key=True))
        routes.add("GET", "/_mock/openapi.yaml", Route(OpenApiDocument(CONTROL, catalog, scenarios)))
        for path, handler in Fragments(control_service, catalog).handlers().items():
            routes.add("GET", path, Route(handler, needs_key=True))
        for path, template in PAGES.items():
            dashboard = DashboardPage(
                template, catalog, scenarios, open_mode=settings.open_mode, in_memory=in_memory
            )
            routes.add("GET", path, Route(dashboard))
    ancestors = " ".join(settings.frame_ancestors) or "'none'"
    page = partial(checkout_page, checkout_service, frame_ancestors=ancestors, in_memory=in_memory)
    routes.add("GET", checkout.PATH, Route(page))
    routes.add("GET", f"{checkout.PATH}/events", Route(partial(checkout.events, checkout_service)))
    routes.add("GET", "/swagger", Route(redirect_to_swagger))
    for path, file in static_files(with_control=control_service is not None).items():
        routes.add("GET", path, Route(file))
    app = Application(
        routes, sandboxes, control_service, AllowedHosts(settings), keyring, clock, log, settings.root_path
    )
    app.unknown_page = partial(unknown_page, paths=routes.templates)
    return app
