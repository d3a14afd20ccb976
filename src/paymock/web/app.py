"""Assembles the application: all routes with their handlers."""

from functools import partial

from paymock.app.checkout import CheckoutService
from paymock.app.control import ControlService
from paymock.app.faults import FaultInjection
from paymock.app.payments import PaymentsService
from paymock.http.hosts import AllowedHosts
from paymock.http.keys import Keyring
from paymock.http.routing import Handler, Route, Routes
from paymock.payments.files import load_catalog, load_scenarios
from paymock.payments.records import StoreMetadata
from paymock.sandbox.clock import Clock
from paymock.sandbox.sandboxes import Sandboxes
from paymock.settings import MEMORY_STORE, Settings, SettingsError
from paymock.stores.base import Store
from paymock.web.application import Application
from paymock.web.documents import CONTROL, PUBLIC, OpenApiDocument
from paymock.web.operations import control, keyless, public
from paymock.web.operations.faults import inject_fault
from paymock.web.operations.operations import handler_of
from paymock.web.pages.fragments import Fragments
from paymock.web.pages.handlers import (
    LLMS,
    PAGES,
    checkout_page,
    dashboard_page,
    llms_txt,
    redirect_to_swagger,
    static_files,
    unknown_page,
)
from paymock.web.telemetry.access_log import RequestLog

METRICS_PATH = "/metrics"


def create_applications(
    settings: Settings, store: Store, metadata: StoreMetadata, clock: Clock, log: RequestLog
) -> list[Application]:
    """Return the application of each address that `settings` describe. `metadata` is that of `store`. Raises
    FileError, and SettingsError if metrics have an address, and prometheus-client is not installed.
    """
    catalog, scenarios = load_catalog(settings.catalog), load_scenarios(settings.scenarios)
    open_mode, in_memory = not settings.api_keys, settings.store == MEMORY_STORE
    sandboxes = Sandboxes(store, clock, metadata, settings.retention)
    payments_service = PaymentsService(catalog, settings.fee_bps, sandboxes, scenarios)
    checkout_service = CheckoutService(catalog, sandboxes)
    control_service = (
        ControlService(catalog, sandboxes, scenarios, log.without_secrets) if settings.control else None
    )
    fault_injection = FaultInjection(sandboxes)
    keyring = Keyring(settings.api_keys)
    routes: Routes[Route] = Routes()
    for operation in public.OPERATIONS:
        handler: Handler = handler_of(operation, payments_service)
        if control_service is not None:
            handler = partial(inject_fault, fault_injection, carry_out=handler)
        route = Route(handler, needs_key=True, operation=operation.operation_id)
        routes.add(operation.method, operation.path, route)
    for operations, service in ((keyless.HEALTH, payments_service), (keyless.CHECKOUTS, checkout_service)):
        for operation in operations:
            routes.add(operation.method, operation.path, Route(handler_of(operation, service)))
    routes.add("GET", "/openapi.yaml", Route(OpenApiDocument(PUBLIC, catalog, scenarios)))
    about = partial(
        llms_txt, catalog=catalog, scenarios=scenarios, control=settings.control, open_mode=open_mode
    )
    routes.add("GET", LLMS, Route(about))
    if control_service is not None:
        for operation in control.OPERATIONS:
            handler = handler_of(operation, control_service)
            routes.add(operation.method, operation.path, Route(handler, needs_key=True))
        routes.add("GET", "/_mock/openapi.yaml", Route(OpenApiDocument(CONTROL, catalog, scenarios)))
        for path, handler in Fragments(control_service, catalog).handlers().items():
            routes.add("GET", path, Route(handler, needs_key=True))
        for path, template in PAGES.items():
            dashboard = partial(
                dashboard_page,
                template=template,
                catalog=catalog,
                scenarios=scenarios,
                open_mode=open_mode,
                in_memory=in_memory,
            )
            routes.add("GET", path, Route(dashboard))
    ancestors = " ".join(settings.frame_ancestors) or "'none'"
    page = partial(checkout_page, checkout_service, frame_ancestors=ancestors, in_memory=in_memory)
    routes.add("GET", keyless.PAGE, Route(page))
    routes.add("GET", "/swagger", Route(redirect_to_swagger))
    for path, file in static_files(with_control=control_service is not None, open_mode=open_mode).items():
        routes.add("GET", path, Route(file))
    hosts = AllowedHosts(settings.addresses[0])
    app = Application(routes, sandboxes, control_service, hosts, keyring, clock, log, settings.root_path)
    app.unknown_page = partial(unknown_page, paths=routes.templates)
    if settings.metrics_address is None:
        return [app]
    try:
        from paymock.web.telemetry.metrics import RequestMetrics
    except ImportError:
        message = "--metrics-address requires the extra: pip install 'paymock[metrics]'"
        raise SettingsError(message) from None
    app.metrics = RequestMetrics(app.routes, scenarios)
    routes = Routes()
    routes.add("GET", METRICS_PATH, Route(app.metrics.page))
    hosts = AllowedHosts(settings.addresses[1])
    return [app, Application(routes, sandboxes, None, hosts, keyring, clock, log)]
