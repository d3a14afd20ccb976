"""Assembles the applications: a table of routes for each, with their handlers."""

from collections.abc import Callable, Iterable, Mapping, Sequence
from functools import partial
from typing import Any

from paymock.app.checkout import CheckoutService
from paymock.app.control import ControlService
from paymock.app.faults import FaultInjection
from paymock.app.payments import PaymentsService
from paymock.http.hosts import AllowedHosts
from paymock.http.keys import Keyring
from paymock.http.requests import ClientGone, Request
from paymock.http.responses import Response
from paymock.http.routing import Handler, Route, Routes
from paymock.payments.files import load_catalog, load_scenarios
from paymock.sandbox.clock import Clock
from paymock.sandbox.owner_limits import LARGE_REPLY, OwnerLimits
from paymock.sandbox.sandboxes import Sandboxes
from paymock.settings import Address, ApplicationSettings, SettingsError
from paymock.web.application import Application
from paymock.web.documents import CONTROL, PUBLIC, OpenApiDocument
from paymock.web.operations import control, keyless, public
from paymock.web.operations.faults import inject_fault
from paymock.web.operations.operations import Operation, handler_of
from paymock.web.pages import handlers as pages
from paymock.web.pages.fragments import Fragments
from paymock.web.telemetry.access_log import RequestLog

METRICS_PATH = "/metrics"

Table = dict[str, Route]
"""Routes by method and template of the path: `GET /v1/chains`."""


def create_applications(
    settings: ApplicationSettings,
    addresses: Sequence[Address],
    sandboxes: Sandboxes,
    clock: Clock,
    log: RequestLog,
    *,
    in_memory: bool = True,
) -> list[Application]:
    """Return the application of each address: the service, and its metrics if there are two. `in_memory`: a
    restart ends the sandboxes. Raises FileError, and SettingsError if the extra for metrics is missing.
    """
    catalog, scenarios = load_catalog(settings.catalog), load_scenarios(settings.scenarios)
    payments = PaymentsService(catalog, settings.fee_bps, sandboxes, scenarios)
    checkouts = CheckoutService(catalog, sandboxes)
    keyring, hosts = Keyring(settings.api_keys, settings.key_names), [*map(AllowedHosts, addresses)]
    open_mode = not settings.api_keys
    shown: dict[str, Any] = {"catalog": catalog, "scenarios": scenarios, "open_mode": open_mode}
    ancestors = " ".join(settings.frame_ancestors) or "'none'"
    checkout = partial(pages.checkout_page, checkouts, frame_ancestors=ancestors, in_memory=in_memory)
    dashboard = partial(pages.dashboard_page, **shown, in_memory=in_memory)
    faults = FaultInjection(sandboxes, keyring.authenticate)

    def with_faults(handler: Handler) -> Handler:
        return partial(inject_fault, faults, carry_out=handler)

    def with_large_reply(handler: Handler, *, waits: bool = False) -> Handler:
        return partial(answer_in_turn, sandboxes.owner_limits, keyring, handler, waits=waits)

    table = {
        **operation_routes(public.OPERATIONS, payments, with_faults if settings.control else None),
        **operation_routes(keyless.HEALTH, payments),
        **operation_routes(keyless.CHECKOUTS, checkouts),
        "GET /openapi.yaml": Route(OpenApiDocument(PUBLIC, catalog, scenarios)),
        f"GET {pages.LLMS}": Route(partial(pages.llms_txt, **shown, control=settings.control)),
        f"GET {keyless.PAGE}": Route(checkout),
        "GET /swagger": Route(pages.redirect_to_swagger),
        **page_routes(pages.static_files(with_control=settings.control, open_mode=open_mode)),
    }
    control_service = None
    if settings.control:
        control_service = ControlService(catalog, sandboxes, scenarios, log.without_secrets, settings.journal)
        fragments = Fragments(control_service, catalog).handlers()
        fragments = {path: with_large_reply(handler) for path, handler in fragments.items()}
        lists = [row for row in control.OPERATIONS if row.has_large_reply]
        waits = [row for row in control.OPERATIONS if row.waits]
        table |= {
            **operation_routes(control.OPERATIONS, control_service),
            **operation_routes(lists, control_service, with_large_reply),
            **operation_routes(waits, control_service, partial(with_large_reply, waits=True)),
            "GET /_mock/openapi.yaml": Route(OpenApiDocument(CONTROL, catalog, scenarios)),
            **page_routes(fragments, needs_key=True),
            **page_routes({path: partial(dashboard, template=file) for path, file in pages.PAGES.items()}),
        }
    routes = Routes(table)
    app = Application(routes, sandboxes, control_service, hosts[0], keyring, clock, log, settings.root_path)
    app.unknown_page = partial(pages.unknown_page, paths=routes.templates)
    if not hosts[1:]:
        return [app]
    try:
        from paymock.web.telemetry.metrics import RequestMetrics
    except ImportError:
        message = "--metrics-address requires the extra: pip install 'paymock[metrics]'"
        raise SettingsError(message) from None
    app.metrics = RequestMetrics(routes, scenarios)
    routes = Routes({f"GET {METRICS_PATH}": Route(app.metrics.page)})
    return [app, Application(routes, sandboxes, None, hosts[1], keyring, clock, log)]


def operation_routes(
    operations: Iterable[Operation], service: object, wrap: Callable[[Handler], Handler] | None = None
) -> Table:
    table: Table = {}
    for row in operations:
        handler = handler_of(row, service)
        table[row.route] = Route(wrap(handler) if wrap else handler, row.needs_key, row.operation_id)
    return table


async def answer_in_turn(
    limits: OwnerLimits, keyring: Keyring, handler: Handler, request: Request, *, waits: bool
) -> Response:
    """Handle a request whose reply may be large, as soon as few others of its owner are being sent. One that
    `waits` begins at once, and calls LARGE_REPLY later.
    """

    async def begin() -> None:
        if request.on_sent is None:
            request.on_sent = await limits.large_reply(request.owner)
        if request.client is not None and request.client.has_left:
            raise ClientGone
        keyring.authenticate(request)  # its key may have been removed meanwhile

    if waits:
        LARGE_REPLY.set(begin)
    else:
        await begin()
    return await handler(request)


def page_routes(handlers: Mapping[str, Handler], *, needs_key: bool = False) -> Table:
    return {f"GET {path}": Route(handler, needs_key) for path, handler in handlers.items()}
