"""Fragments: parts of the dashboard's pages with the data of one sandbox, as HTML. The scripts of the pages
request them with an API key, and show each part in the element of its id.
"""

import json
import shlex
from collections.abc import Iterator, Mapping, Sequence
from datetime import datetime
from itertools import groupby, zip_longest
from typing import Annotated, Any, NamedTuple

import msgspec
from msgspec import Meta

from paymock.app.control import ControlService
from paymock.app.journal import without_times
from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.http.routing import METHODS, Handler
from paymock.payments.checkout import VIEWS
from paymock.payments.files import Catalog
from paymock.payments.views import MAX_DEPOSITS
from paymock.rules.amounts import to_tokens
from paymock.rules.faults import FAULT_PRESETS
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.rules.scenarios import SCENARIOS, DepositStatus, PaymentStatus
from paymock.rules.timeline import summarize, visible
from paymock.rules.times import to_rfc3339
from paymock.sandbox.scheduler import in_slices, yield_turn
from paymock.schemas.control import (
    JournalEntry,
    ListPayments,
    ListRequests,
    OperationId,
    PaymentDetail,
    ReadPayment,
)
from paymock.schemas.public import GET_PAYMENT, Query
from paymock.schemas.validation import QueryParser
from paymock.text import format_seconds
from paymock.web.operations.operations import parse_query
from paymock.web.pages.templating import HTML, parts, security_headers
from paymock.web.pages.timeline_picture import ages, read_counts, timeline_picture

MIN_WIDTH, MAX_WIDTH = 240, 4000
"""Of the drawn timeline, in pixels."""

_MAX_ENTRIES = 200
"""How many entries of the journal are shown."""

_CREATION = ("order_id", "receive", "settlement", "pay_with", "refund_to", "metadata")
"""The members of a payment that its creation had."""

_HEADERS = (("Cache-Control", "no-store"), *security_headers())


class _Requests(Query):
    """Which requests are shown. `order` is a part of the order id, `status` the first digits; 0: no reply."""

    failed: str | None = None
    order: str | None = None
    operation: OperationId | None = None
    status: Annotated[str, Meta(max_length=3)] | None = None

    def matches(self, entry: JournalEntry) -> bool:
        return (
            (self.failed is None or bool(entry.error or entry.fault))
            and (self.order or "") in (entry.order_id or "")
            and self.operation in (None, entry.operation)
            and str(entry.status).startswith(self.status or "")
        )


class _Drawing(ReadPayment):
    width: Annotated[int, Meta(ge=0, le=100_000)] = MIN_WIDTH


_PRESET_NAMES = {fault: name for name, fault, _ in FAULT_PRESETS}

_parse_nothing, _parse_payments = QueryParser(Query), QueryParser(ListPayments)
_parse_requests, _parse_drawing = QueryParser(_Requests), QueryParser(_Drawing)


class Action(NamedTuple):
    """A button: its call, the JSON body, why that is impossible, if it is, and what must be known before."""

    label: str
    call: str
    body: str = ""
    why_not: str = ""
    hint: str = ""


class Bar(NamedTuple):
    """The bar of a payment in the list: the views of the checkout with their begin and end, up to the final
    status, in seconds after the creation. The `axis` is the same for all but longer payments.
    """

    spans: list[tuple[str, float, float]]
    final: PaymentStatus
    end: float
    axis: float
    is_over: bool


class RequestRow(NamedTuple):
    """Equal requests in a row: the newest and the oldest, how many, when they were answered, the command
    that repeats them, and what the journal knows of the newest. The journal keeps no bodies: that of a
    creation is known by its payment, and read from a file otherwise. The page knows what stands for {origin}
    and {key}.
    """

    entry: JournalEntry
    oldest: JournalEntry
    number: int
    times: str
    command: str
    known: dict[str, Any]


class Fragments:
    """The handlers of the fragments."""

    def __init__(self, control: ControlService, catalog: Catalog) -> None:
        self._control = control
        self._catalog = catalog

    def handlers(self) -> Mapping[str, Handler]:
        return {
            "/fragments/payments": self.payments,
            "/fragments/payments/{payment_id}": self.payment,
            "/fragments/checkout/{payment_id}": self.checkout,
            "/fragments/requests": self.requests,
            "/fragments/faults": self.faults,
        }

    async def payments(self, request: Request) -> Response:
        """A page of the list, for the query of `GET /_mock/payments`; and the counts, with the first one."""
        query = parse_query(request, _parse_payments)
        found, next_cursor, total = await self._control.snapshots(request.sandbox, query)
        counts, more = None, False
        if query.cursor is None:
            counts, more = await self._control.status_counts(request.sandbox, query)
            if query.status and more:
                counts[query.status] = max(counts[query.status], len(found))
        is_searched = any((query.scenario, query.order_id, query.search))
        rows = []
        for payment in found:
            await yield_turn()
            states = visible(payment.timeline.outline)
            final = states[-1].status
            end = next(state.at for state in states if state.status is final) / 1000
            starts: dict[str, float] = {}
            for state in states:
                starts.setdefault(VIEWS[state.status].name, state.at / 1000)
            spans = [*zip(starts, starts.values(), [*starts.values(), end][1:], strict=True)]
            bar = Bar(spans, final, end, max(end, _LONGEST), payment.status is final)
            rows.append((payment, payment.record, bar))
        return await self._fragment(
            request,
            "payments",
            rows=rows,
            next_cursor=next_cursor,
            status=query.status,
            is_filtered=is_searched or query.status,
            counts=counts,
            more=more,
            total=total if more and not is_searched else None,
            chains=self._catalog.chains,
            prefix=PAYMENT_PREFIX,
            time=to_rfc3339,
        )

    async def requests(self, request: Request) -> Response:
        """Answer with the newest requests of the journal that match."""
        query = parse_query(request, _parse_requests)
        limit = _MAX_ENTRIES if query == _Requests() else self._control.journal.length
        entries = (await self._control.journal.newest(request.sandbox, ListRequests(limit=limit))).data
        matching = await in_slices(entry for entry in entries if query.matches(entry))
        rows = await in_slices(request_rows(matching[:_MAX_ENTRIES]))
        return await self._fragment(request, "requests", rows=rows)

    async def faults(self, request: Request) -> Response:
        parse_query(request, _parse_nothing)
        rules = (await self._control.fault_rules.list(request.sandbox)).data
        pending = (await self._control.overrides.pending(request.sandbox)).data
        return await self._fragment(request, "faults", rules=rules, pending=pending)

    async def payment(self, request: Request) -> Response:
        """Draw a payment. With `at`, what is read of it at that moment: its status, funding and JSON."""
        query = parse_query(request, _parse_drawing)
        width = max(MIN_WIDTH, min(query.width, MAX_WIDTH))
        payment_id = request.params["payment_id"]
        detail = await self._control.payment(request.sandbox, payment_id)
        requests = ListRequests(payment_id=payment_id, limit=_MAX_ENTRIES)
        entries = (await self._control.journal.newest(request.sandbox, requests)).data
        await yield_turn()
        moment = await self._control.payment(request.sandbox, payment_id, query) if query.at else detail
        payment, read, before = msgspec.to_builtins((detail.payment, moment.payment, moment.before))
        rules = (await self._control.fault_rules.list(request.sandbox)).data
        attempt = payment["attempts"][0]
        chain = self._catalog.chains.get(attempt["instructions"]["chain"])
        reads = {"operation": GET_PAYMENT, "payment_id": payment_id}
        await yield_turn()
        seen = read_counts(detail.timeline, entries)
        age = datetime.fromisoformat(detail.now) - datetime.fromisoformat(detail.payment.created_at)
        return await self._fragment(
            request,
            "payment",
            detail=detail,
            payment=payment,
            attempt=attempt,
            at=query.at,
            read=read,
            chain=chain.name if chain else attempt["instructions"]["chain"],
            funding=_funding(read),
            controls={
                "This payment only": [*_steps(detail)],
                "Pay as the customer": await in_slices(self._deposits(detail)),
                "Fail the next read": [
                    Action(name, "POST /_mock/faults", json.dumps(reads | {"fault": fault}))
                    for name, fault, _ in FAULT_PRESETS
                    if ";" not in fault
                ],
            },
            failing=[  # by rules of its own
                _PRESET_NAMES.get(rule.fault, rule.fault)
                for rule in rules
                if rule.seen >= rule.skip and rule.applied != rule.times
                if rule.payment_id == payment_id and rule.operation in (None, GET_PAYMENT)
            ],
            picture=timeline_picture(detail, seen if entries else (), age.total_seconds(), width),
            all_seen=len(entries) < _MAX_ENTRIES,
            read_counts=seen,
            changes=[*self._changes(read, before or read)],
            lines=await in_slices(json_lines(read, before or read)),
            rows=await in_slices(request_rows(entries, detail)),
        )

    async def checkout(self, request: Request) -> Response:
        parse_query(request, _parse_nothing)
        detail = await self._control.payment(request.sandbox, request.params["payment_id"])
        return await self._fragment(
            request,
            "checkout",
            deposits=await in_slices(self._deposits(detail)),
            step=next(_steps(detail)),
            upcoming=next((entry for entry in detail.timeline if not entry.reached), None),
            speed=(await self._control.clock(request.sandbox)).speed,
        )

    async def _fragment(self, request: Request, name: str, **values: object) -> Response:
        values |= {"tokens": self._tokens, "names": _PRESET_NAMES}
        await yield_turn()
        html = await in_slices(parts(f"fragments/{name}.html", request.root_path, **values))
        return Response(200, "".join(html).encode(), HTML, _HEADERS)

    def _tokens(self, raw: str | int, chain: str, asset: str) -> str | None:
        """Raw units in whole tokens, `1.01 USDT`; None if the catalog no longer knows the asset."""
        known = (self._catalog.assets(chain) or {}).get(asset)
        return f"{to_tokens(int(raw), known.decimals)} {asset}" if known else None

    def _changes(self, payment: Mapping[str, Any], before: Mapping[str, Any]) -> Iterator[str]:
        """What differs between two states of a payment, for people: `confirmations 12 → 16`."""
        if payment["status"] != before["status"]:
            yield f"{before['status']} → {payment['status']}"
        deposits, earlier = (one["attempts"][0].get("deposits", ()) for one in (payment, before))
        for number, (deposit, old) in enumerate(zip_longest(deposits, earlier), 1):
            name = f"deposit {number} " if len(deposits) > 1 else ""
            if old is None:
                tokens = self._tokens(deposit["amount"], deposit["chain"], deposit["asset"])
                yield f"{name or 'deposit '}observed: {tokens or deposit['amount']}"
                continue
            for member, label in (("confirmations", f"{name}confirmations "), ("status", name or "deposit ")):
                if deposit[member] != old[member]:
                    yield f"{label}{old[member]} → {deposit[member]}"

    def _deposits(self, detail: PaymentDetail) -> Iterator[Action]:
        payment = msgspec.to_builtins(detail.payment)
        call = f"POST /_mock/payments/{payment['id']}/deposits"
        funding, attempt = _funding(payment), payment["attempts"][0]
        due, missing = funding["Due"], funding["Missing"]
        chain, asset = attempt["instructions"]["chain"], attempt["instructions"]["asset"]
        known = self._catalog.has_asset(chain, asset)
        other = self._catalog.another_asset(chain, asset) if known else None
        is_full = len(attempt.get("deposits", ())) >= MAX_DEPOSITS
        full = f"a payment takes no more than {MAX_DEPOSITS} deposits" if is_full else ""
        to_come = [entry for entry in detail.timeline if not entry.reached]
        own = next((entry for entry in to_come if entry.deposit_status is DepositStatus.PENDING), None)
        hint = own and f"{detail.scenario} sends its own transfer at {format_seconds(own.offset_seconds)} s"
        if own and own is to_come[0] and detail.payment.status is PaymentStatus.AWAITING_PAYMENT:
            hint = f"{hint}. Pay makes it arrive now; other deposits come on top."
            yield next(_steps(detail))._replace(label="Pay", hint=hint)
        else:
            arrived = "" if missing else "the whole amount has arrived"
            yield Action("Pay", call, _amount(missing), full or arrived, f"{hint}, too." if hint else "")
        halved = "" if due > 1 else "one raw unit cannot be halved"
        yield Action("Half", call, _amount(due // 2), full or halved)
        yield Action("Too much", call, _amount(missing + (due // 10 or 1)), full)
        without = "" if other else "the catalog has no other asset on this chain"
        yield Action("Wrong asset", call, _amount(due, asset=other), full or without)


_LONGEST = max(summarize(scenario).after_seconds for scenario in SCENARIOS.values())


def _amount(raw: int, **more: str | None) -> str:
    return json.dumps({"amount": str(raw), **more})


def _steps(detail: PaymentDetail) -> Iterator[Action]:
    call = f"POST /_mock/payments/{detail.payment.id}/advance"
    over = "no changes remain" if all(entry.reached for entry in detail.timeline) else ""
    yield Action("Next step", call, '{"to": "next"}', over)
    yield Action("+5 s", call, '{"seconds": 5}')
    yield Action("To the end", call, '{"to": "end"}', over)


def _funding(payment: Mapping[str, Any]) -> dict[str, int]:
    """The sums of a payment by their names, in raw units."""
    attempt = payment["attempts"][0]
    funding = attempt.get("funding", {})
    names = ("amount_received_pending", "amount_received_finalized", "overpaid_amount")
    pending, finalized, excess = (int(funding.get(name) or 0) for name in names)
    due = int(attempt["instructions"]["amounts"]["due"])
    missing = max(0, due - pending - finalized)
    return {"Due": due, "Pending": pending, "Finalized": finalized, "Missing": missing, "Excess": excess}


def json_lines(
    value: Any, before: Any, margin: str = "", name: str = "", end: str = ""
) -> Iterator[tuple[str, bool]]:
    """The lines of a value as JSON, each with whether it differs from what was there `before`."""
    if not isinstance(value, (dict, list)) or not value:
        yield f"{margin}{name}{_json(value)}{end}", value != before
        return
    is_new = type(before) is not type(value)
    opening, closing = "{}" if isinstance(value, dict) else "[]"
    members = value.items() if isinstance(value, dict) else enumerate(value)
    earlier = {} if is_new else before if isinstance(before, dict) else dict(enumerate(before))
    yield f"{margin}{name}{opening}", is_new
    for number, (key, member) in enumerate(members, 1):
        label = f"{_json(key)}: " if isinstance(value, dict) else ""
        comma = "," if number < len(value) else ""
        yield from json_lines(member, earlier.get(key, _ABSENT), f"{margin}  ", label, comma)
    yield f"{margin}{closing}{end}", is_new


_ABSENT = object()


def _json(value: Any) -> str:
    return json.dumps(value, ensure_ascii=False)


def request_rows(
    entries: Sequence[JournalEntry], detail: PaymentDetail | None = None
) -> Iterator[RequestRow]:
    """The rows of the journal, newest first, at the virtual time of day; with `detail`, those of one payment,
    in seconds after its creation.
    """
    if detail is None:
        times = [(entry.virtual_at or "")[11:19] for entry in entries]
    else:
        oldest_first = ages(entries[::-1], detail.payment.created_at)
        times = [format_seconds(int(age * 10) / 10) for age in oldest_first][::-1]
    for _, group in groupby(zip(entries, times, strict=True), lambda pair: without_times(pair[0])):
        (newest, until), *others = group
        oldest, since = others[-1] if others else (newest, until)
        shown = " to ".join(dict.fromkeys(filter(None, (since, until))))
        command = ""  # a client may have made the method up
        if newest.method in METHODS:
            url = shlex.quote(f"{{origin}}{newest.path}")
            lines = [f"curl -sS -X {newest.method} {url}", '-H "Authorization: Bearer {key}"']
            if newest.method == "POST":
                lines += ["-H 'Content-Type: application/json'", '-H "Idempotency-Key: again-$(date +%s)"']
                body = "@body.json"
                if detail is not None:
                    payment = msgspec.to_builtins(detail.payment)
                    creation = {name: payment[name] for name in _CREATION if payment[name] is not None}
                    lines.append(f"-H {shlex.quote(f'X-Mock-Scenario: {detail.scenario}')}")
                    body = shlex.quote(json.dumps(creation, ensure_ascii=False))
                lines.append(f"-d {body}")
            command = " \\\n  ".join(lines)
        known = {name: one for name, one in msgspec.to_builtins(newest).items() if one not in (None, [])}
        yield RequestRow(newest, oldest, len(others) + 1, shown, command, known)
