"""The use cases of the control API: time that a test controls, simulated deposits, waiting, overrides, the
journal.

Every method works within one sandbox and touches no other.
"""

import asyncio
import secrets
from collections.abc import Callable
from typing import Any

import msgspec

from paymock.app.feed import Feed, clock_of
from paymock.app.journal import Journal
from paymock.app.overrides import Overrides
from paymock.app.payment_lookup import Filter, PaymentSnapshot, find, newest
from paymock.app.sandboxes import KeyedRequest, Sandboxes, SandboxSnapshot
from paymock.resources import payments, records
from paymock.resources.catalog import Catalog
from paymock.resources.records import DepositRecord, SandboxRecord, SimulationRecord
from paymock.resources.timelines import PaymentTimeline
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import WINDOW
from paymock.rules.timeline import State, deposit_between, event_between, state_at
from paymock.rules.times import LATEST, to_rfc3339
from paymock.schemas import control as schemas
from paymock.schemas.control import END, NEXT
from paymock.schemas.public import Payment
from paymock.schemas.validation import checker_for, decoded, validation_failed
from paymock.stores.base import note_key

_SCANNED = 500
"""How many payments are looked through at a time for those that a filter takes."""


class ControlService:
    """What the control API can do, without HTTP."""

    def __init__(self, catalog: Catalog, sandboxes: Sandboxes) -> None:
        self._catalog = catalog
        self._sandboxes = sandboxes
        self.overrides = Overrides(sandboxes)
        self.journal = Journal(sandboxes)
        self.feed = Feed(sandboxes, self.journal)

    async def clock(self, sandbox: str) -> schemas.Clock:
        """The sandbox's virtual clock."""
        return clock_of(await self._sandboxes.snapshot(sandbox))

    async def set_clock(self, sandbox: str, body: Any) -> schemas.Clock:
        """Changes the speed from now on. Raises PaymockError `validation_failed`.

        A slower clock begins when every process knows of it, so that none has seen later times before.
        """
        speed = decoded(_check_set_clock, body, schemas.SetClock).speed

        def changed(now: SandboxSnapshot) -> SandboxRecord:
            ahead = self._sandboxes.store.propagation_ms if speed < now.clock.speed else 0
            return msgspec.structs.replace(now.record, clock=now.clock.running_at(speed, now.real, ahead))

        after = await self._sandboxes.change(sandbox, changed)
        await self._sandboxes.until(after.clock.since_real)
        return clock_of(msgspec.structs.replace(after, real=max(after.real, after.clock.since_real)))

    async def advance(self, sandbox: str, body: Any) -> schemas.Clock:
        """Moves the sandbox ahead at once. Raises PaymockError `validation_failed`."""
        milliseconds = _milliseconds(decoded(_check_advance, body, schemas.Advance).seconds)

        def advanced(now: SandboxSnapshot) -> SandboxRecord:
            _check_time(now.now + milliseconds)
            return msgspec.structs.replace(now.record, clock=now.clock.advanced(milliseconds))

        return clock_of(await self._sandboxes.change(sandbox, advanced))

    async def advance_payment(self, sandbox: str, payment_id: str, body: Any) -> Payment:
        """Moves one payment ahead of its sandbox. Raises PaymockError `payment_not_found`,
        `validation_failed`, or `status_unreachable` when what `to` names does not lie ahead.
        """
        target = decoded(_check_advance_payment, body, schemas.AdvancePayment)
        if (target.seconds is None) == (target.to is None):
            raise validation_failed({"seconds": "give either seconds or to, not both and not neither"})

        def moved(found: PaymentSnapshot) -> SimulationRecord:
            step = (
                _milliseconds(target.seconds)
                if target.seconds is not None
                else _step_to(found, target.to or END)
            )
            _check_time(found.snapshot.now + found.simulation.time_offset + step)
            return msgspec.structs.replace(found.simulation, time_offset=found.simulation.time_offset + step)

        return (await self._simulate(sandbox, payment_id, moved)).payment

    async def deposit(
        self, sandbox: str, payment_id: str, body: Any, key: str | None, fingerprint: bytes
    ) -> tuple[Payment, bool]:
        """A transfer is observed now; the payment then, and whether this request repeats an earlier one.

        Raises PaymockError `payment_not_found`, `validation_failed`, `capacity_exceeded`, or the idempotency
        conflict. It is observed when every process knows of it, so that none has seen a later state before.
        """
        found = await self._found(sandbox, payment_id)
        wanted = decoded(_check_deposit, body, schemas.MakeDeposit)
        asked = found.record.request.receive
        if wanted.asset is not None and wanted.asset not in (self._catalog.assets(asked.chain) or ()):
            raise validation_failed({"asset": f"is not an asset of the chain {asked.chain}"})
        other_asset = wanted.asset if wanted.asset != asked.asset else None

        def accept(token: str, now: SandboxSnapshot) -> tuple[DepositRecord, SandboxRecord]:
            _check_room(found.simulation)
            payment = found.record.token
            made = DepositRecord(token, fingerprint, payment, found.elapsed, wanted.amount, other_asset)
            return made, now.record

        if key is None:
            made, replayed = accept(secrets.token_hex(16), found.snapshot)[0], False
        else:
            request = KeyedRequest(sandbox, key, fingerprint, body)
            created = await self._sandboxes.create(request, DepositRecord, accept)
            made, replayed = created.record, created.replayed

        propagation_ms = self._sandboxes.store.propagation_ms

        def with_deposit(now: PaymentSnapshot) -> SimulationRecord:
            deposits = now.simulation.deposits
            if any(deposit.token == made.token for deposit in deposits):
                return now.simulation
            _check_room(now.simulation)
            observed = msgspec.structs.replace(made, at=now.after(propagation_ms).elapsed)
            return msgspec.structs.replace(now.simulation, deposits=(*deposits, observed))

        made_so = await self._simulate(sandbox, payment_id, with_deposit)
        if made_so.snapshot.clock.speed:
            await self._sandboxes.until(made_so.snapshot.real + propagation_ms)
        return _as_of(made_so, made.token), replayed

    async def payments(
        self, sandbox: str, wanted: Filter, limit: int, cursor: int | None
    ) -> schemas.PaymentPage:
        """A page of payments, newest first."""
        shown: list[schemas.ListedPayment] = []
        scanned = limit + 1 if wanted == Filter() else _SCANNED
        while True:
            _, page = await newest(self._sandboxes, sandbox, scanned, cursor)
            for position, found in page:
                if wanted.takes(found):
                    if len(shown) == limit:
                        return schemas.PaymentPage(data=shown, next_cursor=str(cursor))
                    shown.append(_listed(found))
                cursor = position
            if len(page) < scanned:
                return schemas.PaymentPage(data=shown, next_cursor=None)
            await asyncio.sleep(0)  # other requests go on while many payments are looked through

    async def payment(self, sandbox: str, payment_id: str) -> schemas.PaymentDetail:
        """A payment with its past and its future. Raises PaymockError `payment_not_found`."""
        found = await self._found(sandbox, payment_id)
        states, age = found.states, found.elapsed
        past = [state for state in found.lasting if state.at <= age]
        if past[0] != states[0]:  # a deposit was made in the very moment of its creation
            past.insert(0, states[0])
        return schemas.PaymentDetail(
            payment=found.payment,
            scenario=found.record.scenario,
            now=to_rfc3339(found.record.created_at + age),
            timeline=[
                _timeline_entry(before, state, found)
                for before, state in zip((None, *states), states, strict=False)
            ],
            window_seconds=WINDOW / 1000,
            before=payments.view(found.record, past[-2]) if len(past) > 1 else None,
        )

    async def wait(
        self, sandbox: str, payment_id: str, status: str | None, timeout: float
    ) -> schemas.WaitResult:
        """Answers as soon as the payment has reached `status`, or, without one, at its next change; at
        once when that can no longer come; after `timeout` real seconds at the latest. Raises PaymockError
        `payment_not_found`.
        """
        loop = asyncio.get_running_loop()
        deadline = loop.time() + timeout
        first: State | None = None
        with self._sandboxes.watch(sandbox) as changed:
            while True:
                changed.clear()
                found = await self._found(sandbox, payment_id)
                current = found.state
                first = first or current
                ahead = [state for state in found.ahead if status in (None, state.status)]
                reached = current != first if status is None else found.has_been(status)
                possible = reached or bool(ahead) or found.could_come(status)
                now = loop.time()
                if reached or not possible or now >= deadline or self._sandboxes.stopping:
                    return schemas.WaitResult(reached=reached, possible=possible, payment=found.payment)
                seconds = found.seconds_to(ahead[0]) if ahead else None
                await changed.until(deadline if seconds is None else min(now + seconds, deadline))

    async def reset(self, sandbox: str) -> None:
        """Forgets payments, keys, endpoints, overrides, journal and clock of this sandbox."""
        await self._sandboxes.reset(sandbox)

    async def _found(self, sandbox: str, payment_id: str) -> PaymentSnapshot:
        return await find(self._sandboxes, sandbox, payment_id)

    async def _simulate(
        self, sandbox: str, payment_id: str, changed: Callable[[PaymentSnapshot], SimulationRecord]
    ) -> PaymentSnapshot:
        while True:
            found = await self._found(sandbox, payment_id)
            after = changed(found)
            if await self._sandboxes.store.replace(
                sandbox,
                note_key(found.record.token),
                found.stored,
                records.encode(after),
                expected_state=found.snapshot.state,
            ):
                self._sandboxes.wake(sandbox)
                return msgspec.structs.replace(found, course=PaymentTimeline(found.record, after))


def _listed(found: PaymentSnapshot) -> schemas.ListedPayment:
    return schemas.ListedPayment(
        **msgspec.structs.asdict(found.payment),
        scenario=found.record.scenario,
        age_seconds=found.elapsed / 1000,
    )


def _timeline_entry(before: State | None, state: State, found: PaymentSnapshot) -> schemas.TimelineEntry:
    number = None if before is None else deposit_between(before, state)
    return schemas.TimelineEntry(
        at=to_rfc3339(found.record.created_at + state.at),
        offset_seconds=state.at / 1000,
        event="Created" if before is None else event_between(before, state).replace("`", ""),
        status=state.status,
        reached=state.at <= found.elapsed,
        deposit=None if number is None else number + 1,
        confirmations=None if number is None else state.deposits[number].confirmations,
    )


def _check_room(simulation: SimulationRecord) -> None:
    """Raises PaymockError `capacity_exceeded` when no more deposits can be made."""
    if len(simulation.deposits) >= payments.MAX_DEPOSITS:
        raise PaymockError("capacity_exceeded", "The payment has a hundred simulated deposits already.")


def _check_time(virtual: int) -> None:
    """Raises PaymockError `validation_failed` for a time that could not be written."""
    if virtual > LATEST:
        raise validation_failed({"seconds": f"leads beyond {to_rfc3339(LATEST)}"})


def _milliseconds(seconds: float) -> int:
    return max(1, round(seconds * 1000))


def _step_to(found: PaymentSnapshot, target: str) -> int:
    """How many milliseconds ahead of the payment its target lies; 0 when it is at its end and END is asked
    for.
    """
    ahead = [state for state in found.ahead if target in (NEXT, END, state.status)]
    if found.state.status == target:
        ahead = []  # later confirmations have this status too, but it has come already
    if not ahead and target != END:
        raise PaymockError("status_unreachable")
    chosen = ahead[-1:] if target == END else ahead[:1]
    return chosen[0].at - found.elapsed if chosen else 0


def _as_of(found: PaymentSnapshot, token: str) -> Payment:
    """The payment just after the deposit with this token was observed."""
    deposits = found.simulation.deposits
    number = next(number for number, deposit in enumerate(deposits) if deposit.token == token)
    then = msgspec.structs.replace(found.simulation, deposits=deposits[: number + 1])
    states = payments.course(found.record, then)
    return payments.view(found.record, state_at(states, deposits[number].at))


_check_set_clock = checker_for(schemas.SetClock)
_check_advance = checker_for(schemas.Advance)
_check_advance_payment = checker_for(schemas.AdvancePayment)
_check_deposit = checker_for(schemas.MakeDeposit)
