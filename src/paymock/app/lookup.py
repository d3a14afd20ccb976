"""Look-ups of payments: snapshots with past and future states."""

import asyncio
import re
from collections.abc import Awaitable, Callable
from functools import partial
from typing import NamedTuple

from msgspec import Struct

from paymock.payments import records, views
from paymock.payments.records import PaymentHead, PaymentRecord, SimulationRecord
from paymock.payments.timelines import PaymentTimeline
from paymock.rules.errors import ERRORS, PaymockError
from paymock.rules.identifiers import PAYMENT_PREFIX, parse_token
from paymock.rules.scenarios import PaymentStatus
from paymock.rules.timeline import State, visible
from paymock.rules.times import LATEST
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import in_slices, yield_turn
from paymock.sandbox.snapshot import SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.public import Payment
from paymock.stores.base import companion_key

_FEW, _MANY = 16, 500  # payments that a search reads at a time: at first, and then
_DERIVED = re.compile("0[xX]([0-9a-fA-F]{40}|[0-9a-fA-F]{64})")
"""An address or a hash, which no record contains."""

_SLEEP_MARGIN = 0.001  # how many seconds too early a sleep may end


def loop_time() -> float:
    return asyncio.get_running_loop().time()


def sleep_for(milliseconds: float) -> float:
    """Return how many seconds to sleep so that at least `milliseconds` pass."""
    return milliseconds / 1000 + _SLEEP_MARGIN


class PaymentSnapshot(Struct, frozen=True):
    """A payment at one moment: its timeline, its simulation record as stored, and its sandbox."""

    timeline: PaymentTimeline
    stored: bytes | None
    sandbox: SandboxSnapshot

    @property
    def record(self) -> PaymentRecord:
        return self.timeline.record

    @property
    def simulation(self) -> SimulationRecord:
        return self.timeline.simulation

    @property
    def elapsed(self) -> int:
        """The payment's age in milliseconds."""
        return self.timeline.age(self.sandbox.now)

    @property
    def state(self) -> State:
        return self.timeline.state_at(self.elapsed)

    @property
    def status(self) -> PaymentStatus:
        return self.timeline.status_at(self.elapsed)

    @property
    def standing(self) -> str:
        """Where the payment stands, as the text of a wait that ended says it."""
        return f"the payment of order {self.record.order_id} is {self.status}"

    @property
    def visible_states(self) -> list[State]:
        return visible(self.timeline.states)

    @property
    def upcoming(self) -> list[State]:
        return [state for state in self.visible_states if state.at > self.elapsed]

    def has_been(self, status: str) -> bool:
        return any(state.status == status for state in self.visible_states if state.at <= self.elapsed)

    async def can_reach(self, status: str | None) -> bool:
        """Whether the payment can still reach this status, or any if None, even by a simulated deposit."""
        await yield_turn()
        for reaches in views.reachability(self.record, self.simulation, self.state, self.elapsed, status):
            if reaches:
                return True
            await yield_turn()
        return False

    def seconds_to(self, age: int) -> float | None:
        """Return the real seconds until this age in milliseconds; None if the clock stops or ends before."""
        if self.record.created_at + age > LATEST:
            return None
        starts = self.record.created_at + age - self.simulation.time_offset
        delay = self.sandbox.clock.real_delay(starts, self.sandbox.real)
        return None if delay is None else sleep_for(delay)

    @property
    def payment(self) -> Payment:
        return views.view(self.record, self.state)

    @property
    def listed(self) -> schemas.ListedPayment:
        """The payment in a list. Its record is decoded once."""
        record = self.record
        shown = views.view(record, self.timeline.state_at(self.elapsed, record))
        members = {name: getattr(shown, name) for name in shown.__struct_fields__}
        members |= {"age_seconds": self.elapsed / 1000, "ahead_seconds": self.simulation.time_offset / 1000}
        return schemas.ListedPayment(**members, scenario=record.scenario)


class PaymentFilter(NamedTuple):
    """Selects payments by status, scenario, order id, and a text: a part of the order id, the beginning of
    the payment id, the invoice address or a transaction hash; None matches all.
    """

    status: str | None = None
    scenario: str | None = None
    order_id: str | None = None
    search: str | None = None

    @property
    def texts(self) -> list[bytes]:
        """What every matching record contains. To look for it takes less time than to decode a record."""
        search = self.search or ""
        token = "" if PAYMENT_PREFIX.startswith(search) else search.removeprefix(PAYMENT_PREFIX)
        return [text.encode() for text in (self.scenario, self.order_id, token) if text]

    def matches(self, payment: PaymentHead) -> bool:
        """Whether the filter matches this payment, whatever its status."""
        return (
            self.scenario in (None, payment.scenario)
            and self.order_id in (None, payment.order_id)
            and (
                self.search is None
                or self.search in payment.order_id
                or f"{PAYMENT_PREFIX}{payment.token}".startswith(self.search)
            )
        )


class PaymentsPage(NamedTuple):
    """Payments at one moment, newest first, with their positions; and that before which there may be more."""

    sandbox: SandboxSnapshot
    payments: list[tuple[int, PaymentSnapshot]]
    end: int | None


_OTHER_IDS = {"att": "an attempt", "dep": "a deposit", "we": "a webhook endpoint", "req": "a request"}


async def find_payment(sandboxes: Sandboxes, sandbox: str, payment_id: str) -> PaymentSnapshot:
    """Return the payment with this id. Raises PaymockError `payment_not_found`."""
    token = parse_token(payment_id, PAYMENT_PREFIX) or ""
    snapshot = await sandboxes.snapshot(sandbox, token, companion_key(token))
    stored, simulation = snapshot.values
    timeline = sandboxes.timelines.get(stored, simulation) if stored else None
    if timeline is None:
        kind, prefix = ERRORS["payment_not_found"], payment_id.partition("_")[0]
        other = f", that of {_OTHER_IDS[prefix]} with {prefix}_" if prefix in _OTHER_IDS else ""
        hint = "" if prefix == "pay" else f"The id of a payment begins with pay_{other}. "
        if hint:
            of_order = PaymentFilter(order_id=payment_id)
            page = await newest_payments(sandboxes, sandbox, 1_000, None, of_order)
            for _, newest in page.payments[:1]:
                hint = f"That is an order: its newest payment is `{PAYMENT_PREFIX}{newest.record.token}`. "
        raise PaymockError("payment_not_found", f"{kind.meaning} {hint}{kind.remedy}{sandboxes.kept_since}")
    return PaymentSnapshot(timeline, simulation, snapshot)


def search_of_order(
    sandboxes: Sandboxes, sandbox: str, order_id: str
) -> Callable[[], Awaitable[PaymentSnapshot | None]]:
    """Return what finds the newest payment of the order, if any, and looks at each payment once; of the id of
    a payment, what finds that one or raises PaymockError `payment_not_found`.
    """
    if order_id.startswith(PAYMENT_PREFIX):
        return partial(find_payment, sandboxes, sandbox, order_id)
    generation: int | None = None
    searched = -1  # the position up to which there is no later payment of the order
    payment_id: str | None = None
    wanted = order_id.encode()  # looking for this text takes less time than decoding a record

    async def newest() -> PaymentSnapshot | None:
        nonlocal generation, searched, payment_id
        current = (await sandboxes.snapshot(sandbox)).record.generation
        if current != generation:  # a reset has deleted what was found
            generation, searched, payment_id = current, -1, None
        known, before, limit = searched, None, _FEW
        while True:
            page = await sandboxes.page(sandbox, PaymentRecord.KIND, limit=limit, before=before)
            new = [(position, stored) for position, stored in page if position > known]
            heads = (records.decode_as(PaymentHead, stored) for _, stored in new if wanted in stored)
            found = next((head.token for head in heads if head.order_id == order_id), None)
            if new:
                searched, before = max(searched, new[0][0]), new[-1][0]
            if found is not None:
                payment_id = PAYMENT_PREFIX + found
            if found is not None or len(new) < limit:
                break
            limit = _MANY
            await yield_turn()
        try:
            return await find_payment(sandboxes, sandbox, payment_id) if payment_id else None
        except PaymockError as error:
            if error.kind.code != "payment_not_found":
                raise
            return None

    return newest


async def newest_payments(
    sandboxes: Sandboxes, sandbox: str, limit: int, before: int | None, payment_filter: PaymentFilter
) -> PaymentsPage:
    """Return those of the newest `limit` payments that match, or of the newest ones before a position. These
    are two steps: payments of before a reset can be later than the clock of after it.
    """
    page = await sandboxes.page(sandbox, PaymentRecord.KIND, limit=limit, before=before)
    search, status = payment_filter.search or "", payment_filter.status
    derived = search if _DERIVED.fullmatch(search) else None
    payment_filter = payment_filter._replace(search=None) if derived else payment_filter
    texts = payment_filter.texts
    matching = await in_slices(
        (position, stored, head)
        for position, stored in page
        if all(text in stored for text in texts)
        and payment_filter.matches(head := records.decode_as(PaymentHead, stored))
    )
    snapshot = await sandboxes.snapshot(sandbox, *(companion_key(head.token) for _, _, head in matching))
    payments = await in_slices(
        (position, payment)
        for (position, stored, _), simulation in zip(matching, snapshot.values, strict=True)
        if (timeline := sandboxes.timelines.get(stored, simulation))
        and (derived is None or timeline.has(derived))
        and status in (None, (payment := PaymentSnapshot(timeline, simulation, snapshot)).status)
    )
    return PaymentsPage(snapshot, payments, page[-1][0] if len(page) == limit else None)
