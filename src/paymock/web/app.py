"""The one assembly point: every route, and who answers it."""

from functools import partial

from paymock.app.checkout_service import CheckoutService
from paymock.app.control_service import ControlService
from paymock.app.payments_service import PaymentsService
from paymock.app.sandboxes import Sandboxes
from paymock.app.system_clock import Clock
from paymock.resources.catalog import Catalog
from paymock.resources.records import StoreMetadata
from paymock.settings import Settings
from paymock.stores.base import Store
from paymock.web.api import checkout
from paymock.web.api import control as control_handlers
from paymock.web.api.faults import inject_fault
from paymock.web.application import Answer, App, Route
from paymock.web.http.auth import Keyring
from paymock.web.http.hosts import AllowedHosts
from paymock.web.http.routing import Routes
from paymock.web.openapi.documents import CONTROL_API, PUBLIC_API
from paymock.web.openapi.examples import ExampleContext
from paymock.web.openapi.generator import OpenApiPage
from paymock.web.pages import dashboard, static_files, swagger
from paymock.web.telemetry.access_log import RequestLog


def create_app(
    settings: Settings, catalog: Catalog, store: Store, origin: StoreMetadata, clock: Clock, log: RequestLog
) -> App:
    """The whole service as an ASGI application. `origin` is that of the store."""
    sandboxes = Sandboxes(store, clock, origin)
    service = PaymentsService(catalog, settings.fee_bps, sandboxes)
    control = ControlService(catalog, sandboxes) if settings.control else None
    keyring = Keyring(settings.api_keys)
    premises = ExampleContext(catalog, settings.fee_bps, keyring)
    checkouts = CheckoutService(catalog, sandboxes)
    routes: Routes[Route] = Routes()
    for operation in PUBLIC_API.operations:
        plain: Answer = partial(operation.handler, checkouts if operation.of_checkout else service)
        handler = plain
        if control is not None and operation.keyed:
            handler = partial(inject_fault, control, carry_out=plain)
        routes.add(operation.method, operation.path, Route(handler, operation.keyed, plain))
    routes.add("GET", "/openapi.yaml", Route(OpenApiPage(PUBLIC_API, premises)))
    if control is not None:
        for operation in CONTROL_API.operations:
            routes.add(
                operation.method, operation.path, Route(partial(operation.handler, control), keyed=True)
            )
        routes.add("GET", "/_mock/events", Route(partial(control_handlers.events, control), keyed=True))
        routes.add("GET", "/_mock/openapi.yaml", Route(OpenApiPage(CONTROL_API, premises)))
        routes.add("GET", swagger.CONTROL_PAGE, Route(partial(swagger.static, with_control=True)))
        for path, template in dashboard.PAGES.items():
            routes.add(
                "GET", path, Route(dashboard.DashboardPage(template, premises, open_mode=settings.open_mode))
            )
    ancestors = " ".join(settings.frame_ancestors) or "'none'"
    customers = partial(checkout.page, checkouts, frame_ancestors=ancestors)
    routes.add("GET", checkout.PATH, Route(customers))
    routes.add("GET", f"{checkout.PATH}/events", Route(partial(checkout.events, checkouts)))
    for path in static_files.paths():
        routes.add("GET", path, Route(static_files.asset))
    routes.add("GET", "/swagger", Route(swagger.redirect))
    for path in swagger.STATIC_PATHS:
        routes.add("GET", path, Route(partial(swagger.static, with_control=control is not None)))
    return App(routes, sandboxes, control, AllowedHosts(settings), keyring, clock, log)
