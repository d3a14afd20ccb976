"""Drives the backend under test: lets it poll, by ticks or at its own pace, and notes what it sends. Its
silence about an order proves something only if it has polled other orders since.
"""

import secrets
import time
from collections import deque
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from itertools import chain, count
from statistics import median
from typing import Any, NamedTuple, TypeVar

from msgspec import convert

from paymock.client.http import Refused, monotonic
from paymock.client.sandbox import Sandbox
from paymock.schemas.control import JournalEntry
from paymock.schemas.public import CREATE_PAYMENT
from paymock.text import without_key
from paymock.verify.order import NO_PLAN, Order
from paymock.verify.plans import Plan
from paymock.verify.process import ExternalService, Service

MIN_PATIENCE = 10.0  # minimum seconds of silence after which it has given up an order, if it polls others
MAX_ORDERS = 3  # maximum number of times that a customer whose order fails tries again
_RECOVERIES = 3  # patience, as a multiple of the longest pause after which the application came back
_MIN_POLLS = 3  # minimum polls of a younger order, or ticks, that show that an order has had its turn
_TICKS_FOR_ALL = 8  # ticks after which it has polled each of many orders
_WAIT_SECONDS = 0.03  # maximum seconds to wait for a request, before trials go on
_SILENCE = 10.0  # seconds without a request about any order; three times as long, until its pace is known
_NEW_ORDER_SECONDS = 5.0  # seconds after which a liveness order that was not heard gets a successor
_STARVED_SECONDS = 300.0  # maximum seconds for which it may poll older orders only
_SLOW_SECONDS = 0.1  # for one call of the judge's own, on a machine that is too slow to judge
_NEWEST_PAYMENTS = 200  # that are asked for when requests were lost: more than orders are under way
_CALLS = 200  # the last calls of the judge's own that are measured

T = TypeVar("T")
PollCounts = dict[int, int]  # by the number of each order; ticks are the number 0


def complete(future: Future[T], call: Callable[..., T], *args: Any, **kwargs: Any) -> None:
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


class Backend(NamedTuple):
    """The backend under test. `order` places an order; an exception means that the customer was told so.
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


class Stopwatch:
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
class RequestFeed:
    """Dispatches the requests of the application to the orders under way. Raises Refused and Unreachable."""

    sandbox: Sandbox
    clock: Stopwatch
    orders: dict[str, Order] = field(default_factory=dict)  # under way, by their ids
    exclusive: Order | None = None  # gets the requests about no order
    liveness: Order | None = None  # stays as it is, younger than all others: a poll of it shows a turn
    polls: PollCounts = field(default_factory=dict)  # of the orders under way, and of past liveness orders
    served: set[str] = field(default_factory=set)  # orders that got a payment
    heard_at: float = 0.0  # when it last polled
    call: int = 0  # the number of the tick, or of the round: what it sends about one order without another
    gaps: int = 0  # how often requests were lost
    last_request: str | None = None
    last_order: str | None = None  # the order that the last request was about

    def start(self) -> None:
        self.last_request = next((one["request_id"] for one in self.sandbox.requests(1)), None)
        self.heard_at = self.clock.now()

    def note(self, wanted: int = 1, timeout: float = 0.0, *, has_own_pace: bool = True) -> None:
        """Note what was sent: wait for so many requests, or `timeout` seconds."""
        query = {"after": self.last_request, "count": wanted, "timeout": timeout}
        reply = self.sandbox.call("waitForRequests", query=query)
        if reply.get("gap"):  # the newest payments show the creations that are lost
            self.gaps += 1
            for order in self.orders.values():
                order.traffic.has_gap = True
            newest = self.sandbox.call("listPayments", query={"limit": _NEWEST_PAYMENTS})["data"]
            for payment in reversed(newest):
                found = self.orders.get(payment["order_id"])
                if found and payment["id"] not in found.traffic.payments:
                    found.traffic.payments.append(payment["id"])
            self.last_request = next((one["request_id"] for one in self.sandbox.requests(1)), None)
        for entry in reversed(convert(reply["data"], list[JournalEntry])):
            self.last_request, now = entry.request_id, self.clock.now()
            self.call += entry.order_id != self.last_order
            self.last_order = entry.order_id
            about = self.exclusive if entry.order_id is None else self.orders.get(entry.order_id)
            if about is not None:
                about.traffic.note(entry, self.call if has_own_pace else -1, now)
                self.polls[about.number] = about.traffic.polls
                self.served |= {about.order_id} if about.traffic.payments else set()
            if entry.operation != CREATE_PAYMENT:  # which does not show that it polls
                self.heard_at = now

    def end(self, order: Order) -> None:
        """Listen no more to what is sent about an order."""
        del self.orders[order.order_id]
        self.polls.pop(order.number, None)


@dataclass
class MeasuredPatience:
    """How long an application may be silent about an order, in seconds, as measured."""

    settle: float  # the maximum, until the patience is known
    poll_interval: float | None = None  # the longest pause between two requests about a plain order
    delivery_delay: float = 0.0  # the longest time without a fault until goods went out that were due
    liveness_pause: float = 0.0  # the longest pause of the liveness order until the probes have ended
    probes: dict[Plan, list[Order]] = field(default_factory=dict)  # orders that are hurt at the start

    @property
    def is_known(self) -> bool:
        """Whether each probe has shown after how long the application comes back, or that it does not."""
        return all(one.traffic.recovery or one.outcome.is_over for one in chain(*self.probes.values()))

    @property
    def seconds(self) -> float:
        """`settle` while probes are awaited. A pause counts that was seen twice, and not without a fault."""
        if not self.is_known or self.settle < MIN_PATIENCE:
            return self.settle
        seen = (min(one.traffic.recovery for one in probes) for probes in self.probes.values())
        recovery = max(seen, default=0.0)
        is_pause = recovery > 2 * self.liveness_pause
        return max(MIN_PATIENCE, _RECOVERIES * recovery * is_pause, 2 * (self.poll_interval or 0.0))


class BackendDriver:
    """Lets the application poll, by ticks or at its own pace. Raises Refused and Unreachable."""

    def __init__(self, sandbox: Sandbox, backend: Backend, settle: float) -> None:
        self.sandbox, self.backend = sandbox, backend
        self.clock = Stopwatch()
        self.feed = RequestFeed(sandbox, self.clock)
        self.patience = MeasuredPatience(settle)
        self.tick_errors: list[str] = []
        self.is_gone = False  # it is waited for no more
        self.is_cut_off = False  # by an outage
        self.is_hurried = False  # ticks follow without a pause
        self._run_id = f"verify-{secrets.token_hex(4)}"
        self._numbers = count(1)
        self._live_numbers: set[int] = set()  # of all liveness orders
        self._ticks = self._fruitless = 0
        self._ticking: Future[object] | None = None
        self._seconds: deque[float] = deque(maxlen=_CALLS)  # that calls of the judge's own took

    @property
    def polls_by_itself(self) -> bool:
        return self.backend.tick is None

    @property
    def slow_seconds(self) -> float:
        """How long a call of the judge's own takes, if this machine is too slow to judge; else 0."""
        seconds = median(self._seconds) if self._seconds else 0.0
        return seconds if seconds >= _SLOW_SECONDS else 0.0

    @property
    def jobs(self) -> int:
        """The most trials at a time, by default: they slow each other, unless the application pauses."""
        return max(16, round(400 * (self.patience.poll_interval or 0.0))) if self.polls_by_itself else 96

    def start(self) -> None:
        self.feed.start()
        if self.polls_by_itself:
            self.place_liveness_order()

    def close(self) -> None:
        """Let the payment of the liveness order come to its end, so that the application forgets it."""
        order, self.feed.liveness = self.feed.liveness, None
        if order is not None:
            del self.feed.orders[order.order_id]
            self.sandbox.clear_next(order.order_id)
            for payment_id in order.traffic.payments:
                self.advance(payment_id, "end")

    def new_order(self, plan: Plan = NO_PLAN) -> Order:
        number = next(self._numbers)
        return Order(plan, number, f"{self._run_id}-{number}")

    def place_liveness_order(self) -> None:
        self.close()
        order = self.feed.liveness = self.new_order()
        self._live_numbers.add(order.number)
        order.history.placed_at = self.clock.now()
        self.feed.orders[order.order_id] = order
        self.sandbox.next("settlement_failed", times=1, order_id=order.order_id)  # its end releases nothing

        def place() -> None:
            for _ in range(MAX_ORDERS):
                with suppress(Exception):
                    self.backend.order(order.order_id)
                    return

        self.backend.executor.submit(place)

    def advance(self, payment_id: str, to: str | None = None, seconds: float | None = None) -> bool:
        """Advance a payment to its next change, its end or by `seconds`; return whether that is possible."""
        began = monotonic()
        try:
            self.sandbox.advance_payment(payment_id, to, seconds)
        except Refused as refused:
            if refused.code != "status_unreachable":
                raise
            return False
        self._seconds.append(monotonic() - began)
        return True

    def listen(self, orders: int, *, progressed: bool, is_batch: bool = False) -> None:
        """Let it poll, and note what it sends about so many orders; of a batch, each request at once."""
        tick, threads, feed = self.backend.tick, self.backend.threads, self.feed
        if feed.liveness is not None and not self.patience.is_known:
            longest = feed.liveness.traffic.longest_pause
            self.patience.liveness_pause = max(self.patience.liveness_pause, longest)
        if tick is None:
            feed.note(1 if is_batch else orders, _WAIT_SECONDS)
        elif is_batch and threads is not None:  # what it waits for happens during a tick
            if self._ticking is None or self._ticking.done():  # it may fail: the application may be away
                self._ticks += self._ticking is not None
                self._ticking = threads.submit(tick)
            feed.note(1, _WAIT_SECONDS, has_own_pace=False)
        else:
            if self._ticking is not None:  # of a batch: no two ticks at a time
                self._ticking.exception()
                self._ticking = None
                feed.note(has_own_pace=False)
            self._fruitless = 0 if progressed or self.is_hurried else self._fruitless + 1
            if self._fruitless > _MIN_POLLS:  # it backs off, in real time
                time.sleep(min(_WAIT_SECONDS, 0.002 * self._fruitless))
            with self.clock.stopped():
                try:
                    tick()
                except Exception as error:  # noqa: BLE001 - the next tick comes all the same
                    self.tick_errors.append(self.describe(error))
            self._ticks += 1
            feed.note()
            feed.call += 1

    @property
    def longest_silence(self) -> float:
        """Seconds after which an application that polls has polled again."""
        interval = self.patience.poll_interval
        return 3 * _SILENCE if interval is None else max(_SILENCE, 3 * interval)

    def is_silent(self) -> bool:
        """Whether it has stopped, as a new order shows. A circuit breaker has half of `settle`."""
        now, settle = self.clock.now(), self.patience.settle
        heard_at, live = self.feed.heard_at, self.feed.liveness
        silence = now - heard_at
        if self.is_gone or silence < self.longest_silence:
            return False
        if live is not None and live.history.placed_at >= heard_at and live.traffic.entries:
            return silence >= settle / 2
        placed_at = live.history.placed_at if live is not None else 0.0
        if placed_at < heard_at or now - placed_at >= _NEW_ORDER_SECONDS:
            self.place_liveness_order()
        return silence >= settle

    def polls(self, order: Order) -> PollCounts:
        """How often it has polled each younger order, and the liveness order beside an exclusive one."""
        live, is_alone = self.feed.liveness, self.feed.exclusive is not None
        counts = {number: polls for number, polls in self.feed.polls.items() if number > order.number}
        if is_alone and live is not None:
            counts[live.number] = live.traffic.polls
        if not self.polls_by_itself:
            counts[0] = self._ticks if is_alone else self._ticks // _TICKS_FOR_ALL
        return counts

    def has_polled(self, since: PollCounts, order: Order) -> bool:
        """Whether the order has had its turn `since`: a younger one was polled some times, or some liveness
        orders, each of which replaced the one before.
        """
        polled = {number: polls - since.get(number, 0) for number, polls in self.polls(order).items()}
        live = sum(polled[number] > 0 for number in polled.keys() & self._live_numbers)
        return max([live, *polled.values()]) >= _MIN_POLLS

    def show_turns(self, order: Order) -> None:
        """Make sure that a younger order shows whether the application polls."""
        live, now = self.feed.liveness, self.clock.now()
        silence = now - max(live.traffic.heard_at, live.history.placed_at) if live else 0.0
        longest = max(_NEW_ORDER_SECONDS, 3 * (self.patience.poll_interval or 0.0))
        if self.polls_by_itself and (live is None or live.number < order.number or silence > longest):
            self.place_liveness_order()

    def describe(self, error: BaseException | None) -> str:
        return without_key(f"{type(error).__name__}: {error}", self.sandbox.secret)


class Silence:
    """For how long the application has sent nothing about an order, though it has polled others."""

    def __init__(self, driver: BackendDriver, order: Order) -> None:
        self._driver, self._order = driver, order
        self._began = monotonic()
        self._restart()

    def _restart(self) -> None:
        self._entries = len(self._order.traffic.entries)
        self._since, self._before = self._driver.clock.now(), self._driver.polls(self._order)

    @property
    def seconds(self) -> float:
        """For how long it has sent nothing."""
        return self._driver.clock.now() - self._since

    def lasts(self, patience: float = 0.0) -> bool:
        """Whether it has sent nothing for `patience` seconds, in which it has polled others."""
        if len(self._order.traffic.entries) != self._entries:
            self._restart()
        return self.waited(patience)

    def waited(self, patience: float) -> bool:
        """Whether `patience` seconds have passed, in which it has polled, whatever it has sent."""
        driver, order = self._driver, self._order
        if driver.is_gone or self.seconds < patience:
            return driver.is_gone
        if self.seconds > _WAIT_SECONDS:
            driver.show_turns(order)
        own = len(order.traffic.entries) - self._entries
        if own >= _MIN_POLLS or driver.has_polled(self._before, order):
            return True
        is_starved = monotonic() - self._began >= max(_STARVED_SECONDS, 2 * driver.patience.settle)
        if is_starved:
            problem = "the application polls older orders, and neither this one nor a younger one"
            order.outcome.problems.append(problem)
        return is_starved
