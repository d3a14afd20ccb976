"""The one assembly point: every route, and who answers it."""

from functools import partial

from paymock.checkouts import Checkouts
from paymock.clock import Clock
from paymock.control import Control
from paymock.core.catalog import Catalog
from paymock.core.records import OriginRecord
from paymock.sandboxes import Sandboxes
from paymock.service import Service
from paymock.settings import Settings
from paymock.stores.base import Store
from paymock.web import assets, checkout, dashboard, guard, swagger
from paymock.web import control as control_handlers
from paymock.web.asgi import Answer, App, Route
from paymock.web.examples import Premises
from paymock.web.faults import suffering
from paymock.web.log import RequestLog
from paymock.web.openapi import OpenApiPage
from paymock.web.openapi_documents import CONTROL_API, PUBLIC_API
from paymock.web.routes import Routes


def create_app(
    settings: Settings, catalog: Catalog, store: Store, origin: OriginRecord, clock: Clock, log: RequestLog
) -> App:
    """The whole service as an ASGI application. `origin` is that of the store."""
    sandboxes = Sandboxes(store, clock, origin)
    service = Service(catalog, settings.fee_bps, sandboxes)
    control = Control(catalog, sandboxes) if settings.control else None
    keyring = guard.Keyring(settings.api_keys)
    premises = Premises(catalog, settings.fee_bps, keyring)
    checkouts = Checkouts(catalog, sandboxes)
    routes: Routes[Route] = Routes()
    for operation in PUBLIC_API.operations:
        plain: Answer = partial(operation.handler, checkouts if operation.of_checkout else service)
        handler = plain
        if control is not None and operation.keyed:
            handler = partial(suffering, control, carry_out=plain)
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
    for path in assets.paths():
        routes.add("GET", path, Route(assets.asset))
    routes.add("GET", "/swagger", Route(swagger.redirect))
    for path in swagger.STATIC_PATHS:
        routes.add("GET", path, Route(partial(swagger.static, with_control=control is not None)))
    return App(routes, sandboxes, control, guard.HostGuard(settings), keyring, clock, log)
