"""The application under test: its turns, by ticks or at its own pace, and what it sends about each order.
Its silence says something only if it has had its turns meanwhile: its polls of younger orders show that.
"""

import secrets
import time
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from typing import Any, NamedTuple, TypeVar

from msgspec import convert

from paymock.client.http import Refused, monotonic
from paymock.client.sandbox import Sandbox
from paymock.rules.faults import FaultKind
from paymock.schemas.control import JournalEntry
from paymock.schemas.public import CREATE_PAYMENT
from paymock.text import without_key
from paymock.verify.order import NO_PLAN, Order
from paymock.verify.plans import Plan
from paymock.verify.process import ExternalService, Service

PATIENCE = 10.0  # the least seconds of silence after which it has given up an order, if it polls others
MAX_ORDERS = 3  # how often a customer whose order fails tries again
_COMEBACKS = 3  # patience is so many times the longest pause after which the application came back
_TURNS = 3  # so often it must have polled a younger order meanwhile, or have been given a tick
_TICKS_FOR_ALL = 8  # after so many ticks, it has polled each of many orders
_WAIT_SECONDS = 0.03  # for what the application sends, before trials go on with what there is
_SILENCE = 10.0  # seconds without news of any order; three times as long, until its pace is known
_NEW_ORDER_SECONDS = 5.0  # after so long, a liveness order of which nothing was heard gets a successor
_STARVED_SECONDS = 600.0  # so long it may poll older orders only, before that says nothing about this one

T = TypeVar("T")


def complete(future: Future[T], call: Callable[..., T], *args: Any, **kwargs: Any) -> None:
    """Make the call, and give its result or exception to the future."""
    try:
        future.set_result(call(*args, **kwargs))
    except Exception as error:  # noqa: BLE001 - whatever the application raises, the trial judges it
        future.set_exception(error)


class InlineExecutor(Executor):
    """Runs each call at once, in the thread of the caller: the objects of a test need not be thread-safe."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        future: Future[T] = Future()
        complete(future, fn, *args, **kwargs)
        return future


class Application(NamedTuple):
    """The application under test. `order` places an order; an exception means that the customer was told so.
    `deliveries` tells how often its goods went out. `tick` lets it poll once; None: it polls by itself. With
    `threads`, all three may be called side by side. `service` is what can be restarted.
    """

    order: Callable[[str], object]
    deliveries: Callable[[str], int]
    tick: Callable[[], object] | None
    executor: Executor
    threads: Executor | None = None
    service: Service | ExternalService | None = None

    def count_deliveries(self, order_id: str) -> Future[int]:
        """How often the goods of an order went out. The result raises TypeError for what is no number."""

        def number_of_deliveries() -> int:
            number: Any = self.deliveries(order_id)
            if not isinstance(number, int) or number < 0:
                raise TypeError(f"must be how often the goods went out, not {number!r}")
            return int(number)

        return self.executor.submit(number_of_deliveries)


class Clock:
    """Seconds that stand still while the application is busy with an order or a tick."""

    _busy = 0.0

    def now(self) -> float:
        return monotonic() - self._busy

    @contextmanager
    def stopped(self) -> Iterator[None]:
        began = monotonic()
        yield
        self._busy += monotonic() - began


@dataclass
class Journal:
    """Deals the requests that the application sends to the `orders` under way; those about no order to the
    `exclusive` one. `served`: orders with a payment; `heard_at`: when it last sent. Raises what Pacing does.
    """

    sandbox: Sandbox
    clock: Clock
    is_ticked: bool
    orders: dict[str, Order] = field(default_factory=dict)
    exclusive: Order | None = None
    liveness: Order | None = None
    served: set[str] = field(default_factory=set)
    heard_at: float = 0.0
    call: int = 0
    last_request: str | None = None

    def start(self) -> None:
        """Begin to listen, after the requests that there are."""
        self.last_request = next((one["request_id"] for one in self.sandbox.requests(1)), None)
        self.heard_at = self.clock.now()

    def note(self, wanted: int = 1, timeout: float = 0.0, *, has_own_pace: bool = True) -> None:
        """Note what was sent: wait for so many requests, or `timeout` seconds. For a tick, it is one call."""
        query = {"after": self.last_request, "count": wanted, "timeout": timeout}
        data = self.sandbox.call("waitForRequests", query=query)["data"]
        for entry in reversed(convert(data, list[JournalEntry])):
            self.last_request, now = entry.request_id, self.clock.now()
            order = self.exclusive if entry.order_id is None else self.orders.get(entry.order_id)
            if order is not None:
                order.note(entry, self.call if has_own_pace else -1, now)
                if order.payments:
                    self.served.add(order.order_id)
            if entry.operation != CREATE_PAYMENT:  # which shows not that it polls
                self.heard_at = now
        self.call += self.is_ticked


@dataclass
class Patience:
    """How long an application may be silent about an order, in seconds, as measured. `settle`: the most
    that is waited until that is known. `pace`: the longest pause between two requests about an order without
    a fault; None: not known. `lag`: the longest time without a fault until goods went out that were due.
    `probes`: orders hurt at the start; `calm`: the longest pause of the liveness order until they have ended.
    """

    settle: float
    pace: float | None = None
    lag: float = 0.0
    calm: float = 0.0
    probes: dict[Plan, list[Order]] = field(default_factory=dict)

    @property
    def is_known(self) -> bool:
        """Whether each probe has shown after how long the application comes back, or that it does not."""
        return all(one.comeback or one.is_over for one in chain(*self.probes.values()))

    @property
    def seconds(self) -> float:
        """`settle` while probes are awaited. A pause counts that was seen twice, and not in calm as well."""
        if not self.is_known or self.settle < PATIENCE:
            return self.settle
        comeback = max((min(one.comeback for one in probes) for probes in self.probes.values()), default=0.0)
        return max(PATIENCE, _COMEBACKS * comeback * (comeback > 2 * self.calm), 2 * (self.pace or 0.0))


class Pacing:
    """Lets the application have its turns: by ticks, or at its own pace. `is_gone`: it is waited for no more;
    `is_cut_off`: by an outage; `tick_errors`: what ticks have raised. Raises Refused and Unreachable.
    """

    def __init__(self, sandbox: Sandbox, application: Application, settle: float) -> None:
        self.sandbox, self.application = sandbox, application
        self.clock = Clock()
        self.journal = Journal(sandbox, self.clock, application.tick is not None)
        self.patience = Patience(settle)
        self.tick_errors: list[str] = []
        self.is_gone = self.is_cut_off = False
        self._run_id = f"verify-{secrets.token_hex(4)}"
        self._numbers = count(1)
        self._ticks = self._fruitless = 0
        self._ticking: Future[object] | None = None

    @property
    def polls_by_itself(self) -> bool:
        return self.application.tick is None

    @property
    def jobs(self) -> int:
        """The most trials at a time, by default: they slow each other, unless the application pauses."""
        return max(16, round(400 * (self.patience.pace or 0.0))) if self.polls_by_itself else 96

    def start(self) -> None:
        self.journal.start()
        if self.polls_by_itself:
            self.place_liveness_order()

    def close(self) -> None:
        """Let the payment of the liveness order come to its end, so that the application forgets it."""
        order, self.journal.liveness = self.journal.liveness, None
        if order is not None:
            del self.journal.orders[order.order_id]
            self.sandbox.clear_next(order.order_id)
            for payment_id in order.payments:
                self.advance(payment_id, "end")

    def new_order(self, plan: Plan = NO_PLAN) -> Order:
        number = next(self._numbers)
        order_id = f"{self._run_id}-{number}"
        has_extra = any(one.parsed.kind is FaultKind.EXTRA and not one.parsed.part for one in plan.injections)
        return Order(plan=plan, number=number, order_id=order_id, has_unknown_members=has_extra)

    def place_liveness_order(self) -> None:
        """Place an order that stays as it is, younger than all others: each poll of it shows a turn."""
        self.close()
        order = self.journal.liveness = self.new_order()
        order.placed_at = self.clock.now()
        self.journal.orders[order.order_id] = order
        self.sandbox.next("settlement_failed", times=1, order_id=order.order_id)  # its end releases nothing

        def place() -> None:
            for _ in range(MAX_ORDERS):
                with suppress(Exception):
                    self.application.order(order.order_id)
                    return

        self.application.executor.submit(place)

    def advance(self, payment_id: str, to: str | None = None, seconds: float | None = None) -> bool:
        """Advance a payment to its next change, its end or by `seconds`; return whether that is possible."""
        try:
            self.sandbox.advance_payment(payment_id, to, seconds)
        except Refused as refused:
            if refused.code != "status_unreachable":
                raise
            return False
        return True

    def listen(self, orders: int, *, progressed: bool, is_batch: bool = False) -> None:
        """Let it poll, and note what it sends about so many orders; of a batch, each request at once."""
        tick, threads, journal = self.application.tick, self.application.threads, self.journal
        if journal.liveness is not None and not self.patience.is_known:
            self.patience.calm = max(self.patience.calm, journal.liveness.longest_pause)
        if tick is None:
            journal.note(1 if is_batch else orders, _WAIT_SECONDS)
        elif is_batch and threads is not None:  # what it waits for happens during a tick
            if self._ticking is None or self._ticking.done():  # it may fail: the application may be away
                self._ticks += self._ticking is not None
                self._ticking = threads.submit(tick)
            journal.note(1, _WAIT_SECONDS, has_own_pace=False)
        else:
            if self._ticking is not None:  # of a batch: no two ticks at a time
                self._ticking.exception()
                self._ticking = None
                journal.note(has_own_pace=False)
            self._fruitless = 0 if progressed else self._fruitless + 1
            if self._fruitless > _TURNS:  # it backs off, in real time
                time.sleep(min(_WAIT_SECONDS, 0.002 * self._fruitless))
            with self.clock.stopped():
                try:
                    tick()
                except Exception as error:  # noqa: BLE001 - the next tick comes all the same
                    self.tick_errors.append(self.describe(error))
            self._ticks += 1
            journal.note()

    @property
    def longest_silence(self) -> float:
        """Seconds after which an application that polls has polled again."""
        return 3 * _SILENCE if self.patience.pace is None else max(_SILENCE, 3 * self.patience.pace)

    def is_silent(self) -> bool:
        """Whether it has stopped, as a new order shows. A circuit breaker has half of `settle`."""
        now, settle = self.clock.now(), self.patience.settle
        heard_at, live = self.journal.heard_at, self.journal.liveness
        silence = now - heard_at
        if silence < self.longest_silence:
            return False
        if live is not None and live.placed_at >= heard_at and live.entries:
            return silence >= settle / 2
        if live is None or live.placed_at < heard_at or now - live.placed_at >= _NEW_ORDER_SECONDS:
            self.place_liveness_order()
        return silence >= settle

    def turns(self, order: Order) -> dict[int, int]:
        """How often the application has polled each younger order, by its number; ticks are the number 0."""
        live, is_alone = self.journal.liveness, self.journal.exclusive is not None
        counts = {
            one.number: one.polls
            for one in self.journal.orders.values()
            if (one.number > order.number and (one.entries or one is live)) or (is_alone and one is live)
        }
        if not self.polls_by_itself:
            counts[0] = self._ticks if is_alone else self._ticks // _TICKS_FOR_ALL
        return counts

    def describe(self, error: BaseException | None) -> str:
        return without_key(f"{type(error).__name__}: {error}", self.sandbox.secret)


class Silence:
    """For how long the application has sent nothing about an order, though it has had its turns."""

    def __init__(self, pacing: Pacing, order: Order) -> None:
        self._pacing, self._order = pacing, order
        self._began = monotonic()
        self._restart()

    def _restart(self) -> None:
        self._entries = len(self._order.entries)
        self._since, self._before = self._pacing.clock.now(), self._pacing.turns(self._order)

    @property
    def seconds(self) -> float:
        """For how long it has sent nothing."""
        return self._pacing.clock.now() - self._since

    def lasts(self, patience: float = 0.0) -> bool:
        """Whether it has sent nothing for `patience` seconds, in which it had its turns."""
        if len(self._order.entries) != self._entries:
            self._restart()
        return self.waited(patience)

    def waited(self, patience: float) -> bool:
        """Whether `patience` seconds have passed, in which it had its turns, whatever it has sent."""
        if self._pacing.is_gone or self.seconds < patience:
            return self._pacing.is_gone
        counts, live = self._pacing.turns(self._order), self._pacing.journal.liveness
        silence = self._pacing.clock.now() - max(live.heard_at, live.placed_at) if live else 0.0
        is_stale = live is None or live.number < self._order.number or silence > self._pacing.longest_silence
        if self._pacing.polls_by_itself and is_stale and self.seconds > _WAIT_SECONDS:
            self._pacing.place_liveness_order()  # a younger one, which shows the turns
        own = len(self._order.entries) - self._entries
        turns = max([own, *(polls - self._before.get(number, 0) for number, polls in counts.items())])
        is_starved = monotonic() - self._began >= _STARVED_SECONDS
        if turns < _TURNS and is_starved:
            problem = "the application polls older orders, and neither this one nor a younger one"
            self._order.problems.append(problem)
        return turns >= _TURNS or is_starved
