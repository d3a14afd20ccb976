"""The use cases of the control API: virtual time, simulated deposits, waiting, overrides, the journal. Every
method works within one sandbox and touches no other.
"""

import secrets
from collections import Counter
from collections.abc import Callable, Mapping

from msgspec import UNSET
from msgspec.structs import asdict, replace

from paymock.app.faults import FaultRules
from paymock.app.journal import Journal, decoded
from paymock.app.lookup import (
    PaymentFilter,
    PaymentSnapshot,
    find_payment,
    loop_time,
    newest_payments,
    search_of_order,
)
from paymock.app.overrides import Overrides
from paymock.app.revisions import Revisions
from paymock.app.story import MAX_PAYMENTS, story
from paymock.app.waits import Waits
from paymock.cache import JOURNAL_LENGTH
from paymock.payments import records, views
from paymock.payments.files import Catalog
from paymock.payments.records import DepositRecord, PaymentRecord, SandboxRecord, SimulationRecord
from paymock.rules.clock import ClockSetting
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import PAYMENT_PREFIX
from paymock.rules.scenarios import PAYMENT_WINDOW, SCENARIOS, PaymentStatus, Scenario
from paymock.rules.timeline import state_at
from paymock.rules.times import LATEST, parse_rfc3339, to_rfc3339
from paymock.sandbox.conflicts import replay_of
from paymock.sandbox.retries import RetryDeadline
from paymock.sandbox.sandboxes import Sandboxes
from paymock.sandbox.scheduler import in_slices, yield_turn
from paymock.sandbox.snapshot import KeyedRequest, SandboxSnapshot
from paymock.schemas import control as schemas
from paymock.schemas.control import END, NEXT
from paymock.schemas.public import Payment
from paymock.schemas.validation import validation_failed
from paymock.stores.base import Addition, companion_key
from paymock.text import without_secrets

MAX_COUNTED = 1_000
"""Of how many payments the statuses are counted."""

_SCANNED = 50
"""How many payments are read at a time to find those that match a filter: then others have their turn."""


class ControlService:
    """The control API, without HTTP."""

    def __init__(
        self,
        catalog: Catalog,
        sandboxes: Sandboxes,
        scenarios: Mapping[str, Scenario] = SCENARIOS,
        mask: Callable[[str], str] = without_secrets,
        journal_length: int = JOURNAL_LENGTH,
    ) -> None:
        """`mask` removes secrets from a line of a story."""
        self._mask = mask
        self.scenarios = scenarios
        self._catalog = catalog
        self._sandboxes = sandboxes
        self.waiting_request = sandboxes.notifier.waiting_request
        self.overrides = Overrides(sandboxes, scenarios)
        self.fault_rules = FaultRules(sandboxes)
        self.journal = Journal(sandboxes, journal_length)
        self.waits = Waits(sandboxes, self.journal)
        self.revisions = Revisions(sandboxes, self.journal)

    @property
    def services(self) -> tuple[object, ...]:
        """What operations call: the service itself, and its parts."""
        return self, self.revisions, self.waits, self.overrides, self.fault_rules, self.journal

    async def list_scenarios(self, sandbox: str) -> schemas.ScenarioList:
        """Return the scenarios of this server, the same for every sandbox."""
        return schemas.ScenarioList(data=await in_slices(map(views.listed_scenario, self.scenarios.values())))

    async def clock(self, sandbox: str) -> schemas.VirtualClock:
        return _clock_of(await self._sandboxes.snapshot(sandbox))

    async def set_clock(self, sandbox: str, setting: schemas.SetClock) -> schemas.VirtualClock:
        """Set the speed from now on, or the time, and the speed if given.

        A lower speed takes effect when every process knows it, so that no process has shown later times. Only
        an empty sandbox is set to a time, so that none of a payment goes back: in one step, so that it is
        either before or after a creation.

        Raises PaymockError `validation_failed`, or `sandbox_not_empty`.
        """
        if setting.now is UNSET and setting.speed is UNSET:
            raise validation_failed({"speed": "give speed, now or both"})
        start = None if setting.now is UNSET else parse_rfc3339(setting.now)

        def changed(snapshot: SandboxSnapshot) -> SandboxRecord:
            clock, real = snapshot.clock, snapshot.real
            speed = clock.speed if setting.speed is UNSET else setting.speed
            delay = self._sandboxes.propagation_ms if speed < clock.speed else 0
            if start is not None:
                clock, delay = ClockSetting(real, start, clock.speed), 0
            return replace(snapshot.record, clock=clock.with_speed(speed, real, delay))

        after = await self._sandboxes.change(sandbox, changed, if_empty=start is not None)
        await self._sandboxes.sleep_until(after.clock.since_real)
        return _clock_of(replace(after, real=max(after.real, after.clock.since_real)))

    async def advance(self, sandbox: str, step: schemas.Advance) -> schemas.VirtualClock:
        """Advance the clock of the sandbox at once. Raises PaymockError `validation_failed`."""
        milliseconds = _milliseconds(step.seconds)

        def advanced(snapshot: SandboxSnapshot) -> SandboxRecord:
            _check_time(snapshot.now + milliseconds)
            return replace(snapshot.record, clock=snapshot.clock.advanced(milliseconds))

        return _clock_of(await self._sandboxes.change(sandbox, advanced))

    async def advance_payment(
        self, sandbox: str, payment_id: str, step: schemas.AdvancePayment
    ) -> Payment | schemas.ObservedPayment:
        """Advance one payment relative to its sandbox. With `until_observed`, go to each visible change
        within the `step`, and stay until the application has had a reply to `getPayment` or `listAttempts`
        that shows it; at most until the timeout.

        Raises PaymockError `payment_not_found`, `validation_failed`, or `status_unreachable` if the payment
        cannot reach the target `to`.
        """
        if (step.seconds is None) == (step.to is None):
            raise validation_failed({"seconds": "give exactly one of seconds and to"})

        def advanced(payment: PaymentSnapshot) -> SimulationRecord:
            return _advanced(payment, _length_of(step, payment))

        if step.timeout is not None and not step.until_observed:
            raise validation_failed({"timeout": "requires `until_observed`"})
        if not step.until_observed:
            return (await self._simulate(sandbox, payment_id, advanced)).payment
        deadline = loop_time() + (schemas.DEFAULT_WAIT if step.timeout is None else step.timeout)
        payment = await self._find(sandbox, payment_id)
        position = payment.elapsed
        goal = position + _length_of(step, payment)

        def next_change(payment: PaymentSnapshot) -> int | None:
            changes = (state.at for state in payment.visible_states if position < state.at <= goal)
            return next(changes, None)

        def at_next_change(payment: PaymentSnapshot) -> SimulationRecord:
            change = next_change(payment)
            return _advanced(payment, max(0, (goal if change is None else change) - payment.elapsed))

        observed = True
        async with self.waits.payment_reads(sandbox, payment_id) as reads:
            while observed:
                payment = await self._simulate(sandbox, payment_id, at_next_change)
                change = next_change(payment)
                if change is None:
                    break
                observed = await self.waits.observed(sandbox, reads, payment_id, change, deadline)
                position = change
        message = UNSET if observed else f"{payment.standing}; awaited: that the application reads it"
        return schemas.ObservedPayment(payment=payment.payment, observed=observed, message=message)

    async def deposit(
        self, sandbox: str, payment_id: str, deposit: schemas.MakeDeposit, request: KeyedRequest | None = None
    ) -> tuple[Payment, bool]:
        """Simulate a transfer that is observed now. Return the payment just after it, and whether this
        request repeats an earlier one.

        The deposit and its key are stored in one step, so a refused request leaves its key free. The time of
        the deposit is when every process knows it, so that no process has shown a later state.

        Raises PaymockError `payment_not_found`, `validation_failed`, `capacity_exceeded`, or the idempotency
        conflict.
        """
        payment = await self._find(sandbox, payment_id)
        receive, asset = payment.record, deposit.asset
        if asset is not None and asset not in (self._catalog.assets(receive.chain) or ()):
            raise validation_failed({"asset": self._catalog.unknown_asset(receive.chain, asset)})
        other_asset = asset if asset != receive.asset else None
        fingerprint = request.fingerprint if request else b""

        propagation_ms, deadline = self._sandboxes.propagation_ms, RetryDeadline()
        token, replayed = secrets.token_hex(16), False
        while True:
            if request is not None:
                token, current = await self._sandboxes.find_key(sandbox, request.idempotency_key)
                [stored] = current.values
                about = (request, DepositRecord, current, receive.asset)
                replayed = stored is not None and replay_of(stored, *about).replayed
            deposits = payment.simulation.deposits
            if any(existing.token == token for existing in deposits):
                break
            if len(deposits) >= views.MAX_DEPOSITS:
                raise PaymockError("capacity_exceeded", "The payment already has 100 simulated deposits.")
            later = replace(payment.sandbox, real=payment.sandbox.real + propagation_ms)
            at = payment.timeline.age(later.now)
            record = DepositRecord(token, fingerprint, receive.token, at, deposit.amount, other_asset)
            # a key that exists without its deposit is that of a payment which the engine has deleted since
            addition = (token, records.encode(record), record.KIND) if request and not replayed else None
            simulation = replace(payment.simulation, deposits=(*deposits, record))
            if await self._replace(payment, simulation, addition):
                payment = replace(payment, timeline=payment.timeline.with_simulation(simulation))
                break
            deadline.check()
            payment = await self._find(sandbox, payment_id)
        if payment.sandbox.clock.speed:
            await self._sandboxes.sleep_until(payment.sandbox.real + propagation_ms)
        deposits = payment.simulation.deposits
        number = next(number for number, made in enumerate(deposits) if made.token == token)
        await yield_turn()
        just_after = replace(payment.simulation, deposits=deposits[: number + 1])
        states = views.states(payment.record, just_after)
        return views.view(payment.record, state_at(states, deposits[number].at)), replayed

    async def payments(self, sandbox: str, query: schemas.ListPayments) -> schemas.PaymentPage:
        found, next_cursor, total = await self.snapshots(sandbox, query)
        data = await in_slices(payment.listed for payment in found)
        return schemas.PaymentPage(data=data, next_cursor=next_cursor, total=total)

    async def snapshots(
        self, sandbox: str, query: schemas.ListPayments
    ) -> tuple[list[PaymentSnapshot], str | None, int]:
        """Return what `payments` returns, as snapshots: the page, its `next_cursor`, and the total."""
        wanted = PaymentFilter(query.status, query.scenario, query.order_id, query.search)
        scanned = query.limit + 1 if wanted == PaymentFilter() else _SCANNED
        position = None if query.cursor is None else int(query.cursor)
        found: list[tuple[int, PaymentSnapshot]] = []
        while True:
            page = await newest_payments(self._sandboxes, sandbox, scanned, position, wanted)
            found += page.payments
            position = page.end
            if position is None or len(found) > query.limit:
                break
            await yield_turn()
        # counted last, so that it includes those that were created meanwhile; a reset may have deleted all
        total = max(len(found[: query.limit]), await self._sandboxes.count(sandbox, PaymentRecord.KIND))
        cursors = [str(position + 1) for position, _ in found[query.limit : query.limit + 1]]
        return [payment for _, payment in found[: query.limit]], next(iter(cursors), None), total

    async def status_counts(
        self, sandbox: str, query: schemas.ListPayments
    ) -> tuple[Counter[PaymentStatus], bool]:
        """Count the payments that match by status, whichever status `query` names; at least the newest
        MAX_COUNTED of them. Return also whether there may be more.
        """
        wanted = PaymentFilter(None, query.scenario, query.order_id, query.search)
        counts: Counter[PaymentStatus] = Counter()
        position = None
        while True:
            page = await newest_payments(self._sandboxes, sandbox, MAX_COUNTED, position, wanted)
            counts.update(await in_slices(payment.status for _, payment in page.payments))
            position = page.end
            if position is None or counts.total() >= MAX_COUNTED:
                return counts, position is not None
            await yield_turn()

    async def payment(
        self, sandbox: str, payment_id: str, query: schemas.ReadPayment | None = None
    ) -> schemas.PaymentDetail:
        """Return a payment with its timeline, now or at a moment. Raises PaymockError `payment_not_found`."""
        age = round(float(query.at) * 1000) if query and query.at else None
        return await self._detail(await self._find(sandbox, payment_id), age)

    async def payment_id(self, sandbox: str, payment_or_order: str) -> str:
        """The id of an order's newest payment, or a given id. Raises PaymockError `payment_not_found`."""
        if payment_or_order.startswith(PAYMENT_PREFIX):
            return payment_or_order
        newest = await search_of_order(self._sandboxes, sandbox, payment_or_order)()
        if newest is None:
            message = "This API key has no payment of that order. The id of a payment begins with pay_."
            raise PaymockError("payment_not_found", message + self._sandboxes.kept_since)
        return PAYMENT_PREFIX + newest.record.token

    async def story(self, sandbox: str, query: schemas.ReadStory) -> str:
        """Return what happened in the sandbox, to a payment or to an order, as text without secrets. Raises
        PaymockError `payment_not_found`, also if the payment is not of the order.
        """
        payment_id, order_id = query.payment_id, query.order_id
        clock = await self.clock(sandbox)
        cursor = None
        if payment_id is not None:
            found = [await self._find(sandbox, payment_id)]
        else:
            newest = schemas.ListPayments(limit=MAX_PAYMENTS, order_id=order_id)
            found, cursor, _ = await self.snapshots(sandbox, newest)
        orders = {payment.record.order_id for payment in found}
        if order_id is not None and order_id not in orders:
            raise PaymockError("payment_not_found", f"No such payment.{self._sandboxes.kept_since}")
        rules = (await self.fault_rules.list(sandbox)).data
        pending = (await self.overrides.pending(sandbox)).data
        requests = await decoded(await self.journal.stored(sandbox, JOURNAL_LENGTH))
        details = [await self._detail(payment) for payment in found]
        if payment_id or order_id:
            ids = {None, *(detail.payment.id for detail in details)}
            # A refused creation has no payment, and an order may have more payments than are shown.
            requests = [
                one
                for one in requests
                if (one.payment_id in ids if one.payment_id and payment_id else one.order_id in orders)
            ]
            rules = [one for one in rules if one.payment_id in ids and one.order_id in {None, *orders}]
            pending = []  # which are for other payments
        return story(clock, details, rules, pending, requests, has_more=cursor is not None, mask=self._mask)

    async def reset(self, sandbox: str) -> None:
        await self._sandboxes.reset(sandbox)

    async def _find(self, sandbox: str, payment_id: str) -> PaymentSnapshot:
        return await find_payment(self._sandboxes, sandbox, payment_id)

    async def _detail(self, payment: PaymentSnapshot, age: int | None = None) -> schemas.PaymentDetail:
        states, age = payment.timeline.states, payment.elapsed if age is None else age
        await yield_turn()
        past = [state for state in payment.visible_states if state.at <= age]
        if past[0] != states[0]:  # a deposit was made at the same millisecond as the creation
            past.insert(0, states[0])
        record = payment.record
        asset = (self._catalog.assets(record.chain) or {}).get(record.asset)
        timeline = await in_slices(
            schemas.TimelineEntry(
                **asdict(views.change(previous, state)),
                at=to_rfc3339(record.created_at + state.at),
                reached=state.at <= age,
            )
            for previous, state in zip((None, *states), states, strict=False)
        )
        return schemas.PaymentDetail(
            payment=views.view(record, payment.timeline.state_at(age)),
            scenario=record.scenario,
            decimals=asset.decimals if asset else None,
            now=to_rfc3339(record.created_at + age),
            timeline=timeline,
            window_seconds=PAYMENT_WINDOW / 1000,
            before=views.view(record, past[-2]) if len(past) > 1 else None,
            ahead_seconds=payment.simulation.time_offset / 1000,
        )

    async def _simulate(
        self, sandbox: str, payment_id: str, compute: Callable[[PaymentSnapshot], SimulationRecord]
    ) -> PaymentSnapshot:
        deadline = RetryDeadline()
        while True:
            payment = await self._find(sandbox, payment_id)
            simulation = compute(payment)
            if await self._replace(payment, simulation):
                return replace(payment, timeline=payment.timeline.with_simulation(simulation))
            deadline.check()

    async def _replace(
        self, payment: PaymentSnapshot, simulation: SimulationRecord, addition: Addition | None = None
    ) -> bool:
        """Replace the simulation record of a payment, if it is as in the snapshot. Return whether it was."""
        key, new = companion_key(payment.record.token), records.encode(simulation)
        return await self._sandboxes.replace(payment.sandbox, key, payment.stored, new, addition)


def _clock_of(snapshot: SandboxSnapshot) -> schemas.VirtualClock:
    return schemas.VirtualClock(now=to_rfc3339(snapshot.now), speed=snapshot.clock.speed)


def _check_time(virtual: int) -> None:
    """Raise PaymockError `validation_failed` for a time that RFC 3339 cannot express."""
    if virtual > LATEST:
        raise validation_failed({"seconds": f"would lead beyond {to_rfc3339(LATEST)}"})


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _advanced(payment: PaymentSnapshot, milliseconds: int) -> SimulationRecord:
    """Return the simulation record of a payment that is advanced. Raises PaymockError `validation_failed`."""
    time_offset = payment.simulation.time_offset + milliseconds
    _check_time(payment.sandbox.now + time_offset)
    return replace(payment.simulation, time_offset=time_offset)


def _length_of(step: schemas.AdvancePayment, payment: PaymentSnapshot) -> int:
    """A step in milliseconds; 0 to END after the last change. Raises PaymockError `status_unreachable`."""
    if step.seconds is not None:
        return _milliseconds(step.seconds)
    upcoming = [state for state in payment.upcoming if step.to in (NEXT, END, state.status)]
    if payment.state.status == step.to:
        upcoming = []  # later confirmations have the same status, which is already reached
    if not upcoming and step.to != END:
        ahead = ", ".join(dict.fromkeys(f"`{state.status}`" for state in payment.upcoming)) or "nothing"
        stands = f"the payment is `{payment.status}` in `{payment.record.scenario}`; ahead: {ahead}."
        raise PaymockError("status_unreachable", f"`{step.to}` does not lie ahead: {stands}")
    chosen = upcoming[-1:] if step.to == END else upcoming[:1]
    return chosen[0].at - payment.elapsed if chosen else 0
