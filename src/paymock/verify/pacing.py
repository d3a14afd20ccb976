"""The application under test, and how it gets to poll: when it is given a tick, or at its own pace.

Inactivity says something only if the application has had its turns meanwhile: how often it has polled younger
orders shows that.
"""

import secrets
import time
from abc import ABC, abstractmethod
from collections.abc import Callable, Iterator
from concurrent.futures import Executor, Future
from contextlib import contextmanager, suppress
from itertools import count
from typing import Any, ClassVar, NamedTuple, TypeVar

from paymock.client.http import Json, Refused, monotonic
from paymock.client.sandbox import Sandbox
from paymock.schemas.public import CREATE_PAYMENT, PAYMENT_READS
from paymock.text import without_key
from paymock.verify.oracle import Observation
from paymock.verify.process import ExternalService, Service

MAX_ORDERS = 3
"""How often a customer whose order fails tries again."""

_TURNS = 3
"""How often the application must have polled a younger order meanwhile, or have been given a tick."""

_TICKS_FOR_ALL = 8
"""After so many ticks, an application has polled each of many orders."""

_WAIT_SECONDS = 0.03
"""How long to wait for what the application sends, before trials go on with what there is."""

_SILENCE = 10.0
"""How long nothing may be heard of any order, in seconds, before the application counts as silent; as long as
it is not known how often it polls, three times as long.
"""

_NEW_ORDER_SECONDS = 5.0
"""After so long, another liveness order is placed when nothing has been heard of the last."""

_STARVED_SECONDS = 600.0
"""How long the application may poll older orders only, before that says nothing about this one."""

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
    """The application under test.

    `order` places an order; an exception means that the customer was told so. `deliveries` tells how often
    its goods went out. `tick` lets it poll once; None: it polls by itself. With `threads`, all three may be
    called side by side. `service` is what can be restarted.
    """

    order: Callable[[str], object]
    deliveries: Callable[[str], int]
    tick: Callable[[], object] | None
    executor: Executor
    threads: Executor | None = None
    service: Service | ExternalService | None = None

    def count_deliveries(self, order_id: str) -> int:
        """How often the goods of an order went out. Raises TypeError for what is no number."""
        number: Any = self.deliveries(order_id)
        if not isinstance(number, int) or number < 0:
            raise TypeError(f"must be how often the goods went out, not {number!r}")
        return int(number)


class Order(Observation):
    """An order of the application. `problems` tell why it says nothing."""

    def __init__(self, number: int, order_id: str) -> None:
        super().__init__()
        self.number = number
        self.order_id = order_id
        self.problems: list[str] = []
        self.polls = 0
        self.placed_at = 0.0
        self.heard_at = 0.0
        self.pause = 0.0
        """Between the last two requests, in seconds."""

    def note(self, entry: Json, call: int, now: float) -> None:
        self.pause, self.heard_at = now - (self.heard_at or now), now
        self.entries.append(entry)
        self.calls.append(call)
        self.polls += entry["operation"] in PAYMENT_READS
        payment_id = entry["payment_id"]
        is_new = entry["operation"] == CREATE_PAYMENT and entry["idempotency"] == "new"
        if is_new and payment_id and payment_id not in self.payments:
            self.payments.append(payment_id)


class Pacing(ABC):
    """Calls the application, and notes what it sends about the orders that are under way. Raises Refused and
    Unreachable.
    """

    polls_by_itself: ClassVar[bool]
    default_jobs: ClassVar[int]
    """The most trials at a time by default."""
    unread_hint: ClassVar[str]
    """What to ask the user if no payment is ever read."""

    def __init__(self, sandbox: Sandbox, application: Application) -> None:
        self.sandbox = sandbox
        self.application = application
        self.tick_errors: list[str] = []
        self._run_id = f"verify-{secrets.token_hex(4)}"
        self._numbers = count(1)
        self._orders: dict[str, Order] = {}
        self._exclusive: Order | None = None
        self._liveness_order: Order | None = None
        self._last_request: str | None = None
        self._calls = 0
        self._busy = 0.0
        self.served = 0
        """How many orders have a payment."""
        self.pace: float | None = None
        """The longest pause between two requests about an order, in seconds, once it is known."""
        self.lag = 0.0
        """The longest time without a fault until goods went out that were due, in seconds."""
        self.is_gone = False
        """Whether the application is not waited for any more."""
        self.heard_at = self.now()
        """When the application was last heard of."""

    def start(self) -> None:
        """Begin to listen, after the requests that there are."""
        newest = self.sandbox.requests(1)
        self._last_request = newest[0]["request_id"] if newest else None

    def close(self) -> None:
        """Let the payment of the liveness order come to its end, so that the application forgets it."""
        order, self._liveness_order = self._liveness_order, None
        if order is not None:
            self.end(order)
            for payment_id in order.payments:
                self.advance(payment_id, "end")

    def forget(self) -> None:
        """Begin anew with an application that has just started and may have forgotten the liveness order."""
        self.heard_at = self.now()
        self.close()

    @abstractmethod
    def listen(self, orders: int, *, progressed: bool, is_batch: bool = False) -> None:
        """Let the application poll, and note what it has sent about so many orders. `progressed`: whether
        any of them has come on since the last call. For a batch, note each request as soon as it is there.
        """

    def poll_counts(self, order: Order) -> dict[int, int]:
        """How often the application has polled each order after this one, as far as is known, by its number;
        after one that runs alone comes the liveness order, too.
        """
        live = self._liveness_order
        later = [
            one for one in self._orders.values() if one.number > order.number and (one.entries or one is live)
        ]
        if self._exclusive is not None and live is not None:
            later.append(live)
        return {one.number: one.polls for one in later}

    def new_id(self) -> tuple[int, str]:
        """The number and the id of the next order."""
        number = next(self._numbers)
        return number, f"{self._run_id}-{number}"

    def begin(self, order: Order, *, exclusive: bool) -> None:
        """Note requests about an order from now on; those without an order as well if it runs alone."""
        self._orders[order.order_id] = order
        self._exclusive = order if exclusive else None

    def end(self, order: Order) -> None:
        del self._orders[order.order_id]

    def place(self, order_id: str) -> Future[object]:
        with self._application_is_busy():
            return self.application.executor.submit(self.application.order, order_id)

    def count_deliveries(self, order_id: str) -> Future[int]:
        return self.application.executor.submit(self.application.count_deliveries, order_id)

    def place_liveness_order(self) -> None:
        """Place an order whose payment stays as it is, younger than all others. How often the application
        polls it tells whether it has had its turn.
        """
        self.close()
        order = self._liveness_order = Order(*self.new_id())
        order.placed_at = self.now()
        self._orders[order.order_id] = order
        self.application.executor.submit(self._place_with_retries, order.order_id)

    def _place_with_retries(self, order_id: str) -> None:
        for _ in range(MAX_ORDERS):
            with suppress(Exception):
                self.application.order(order_id)
                return

    def is_silent(self, settle: float) -> bool:
        """Whether the application has stopped, which a new order shows. It may have opened a circuit breaker:
        it has half of `settle` seconds to read again, and all of them if it creates no payment either.
        """
        silence = self.now() - self.heard_at
        limit = 3 * _SILENCE if self.pace is None else max(_SILENCE, 3 * self.pace)
        live = self._liveness_order
        if silence < limit:
            return False
        if live is None or live.placed_at < self.heard_at:
            self.place_liveness_order()
        elif live.entries:
            return silence >= max(limit, settle / 2)
        elif self.now() - live.placed_at >= _NEW_ORDER_SECONDS:
            self.place_liveness_order()
        return silence >= max(limit, settle)

    def advance(self, payment_id: str, to: str | None = None, seconds: float | None = None) -> bool:
        """Advance a payment to its `"next"` change, to the `"end"` of its timeline or by `seconds`; return
        whether that is possible.
        """
        try:
            self.sandbox.advance_payment(payment_id, to, seconds)
        except Refused as refused:
            if refused.code != "status_unreachable":
                raise
            return False
        return True

    def note_requests(self, wanted: int = 1, timeout: float = 0.0) -> None:
        """Note what the application has sent since the last call: wait until it has sent so many requests, or
        for `timeout` seconds.
        """
        query = {"after": self._last_request, "count": wanted, "timeout": timeout}
        for entry in reversed(self.sandbox.call("waitForRequests", query=query)["data"]):
            self._last_request, now = entry["request_id"], self.now()
            order_id = entry["order_id"]
            order = self._exclusive if order_id is None else self._orders.get(order_id)
            if order is not None:
                had_none = not order.payments
                order.note(entry, self._calls, now)
                self.served += had_none and bool(order.payments)
            if order is None or order is not self._liveness_order or entry["operation"] != CREATE_PAYMENT:
                self.heard_at = now

    def now(self) -> float:
        """A time in seconds that stands still while the application is busy with an order or a tick: then it
        is not silent.
        """
        return monotonic() - self._busy

    @contextmanager
    def _application_is_busy(self) -> Iterator[None]:
        began = monotonic()
        yield
        self._busy += monotonic() - began

    def describe(self, error: BaseException | None) -> str:
        return without_key(f"{type(error).__name__}: {error}", self.sandbox.secret)


class OwnPace(Pacing):
    """An application that polls by itself."""

    polls_by_itself = True
    default_jobs = 16  # each slows the others
    unread_hint = "is `tick` missing?"

    def start(self) -> None:
        super().start()
        self.place_liveness_order()

    def listen(self, orders: int, *, progressed: bool, is_batch: bool = False) -> None:
        self.note_requests(1 if is_batch else orders, _WAIT_SECONDS)


class Ticked(Pacing):
    """An application that polls when it is given a tick."""

    polls_by_itself = False
    default_jobs = 96  # a sandbox has at most a hundred fault rules
    unread_hint = "does `tick` poll it?"

    def __init__(self, sandbox: Sandbox, application: Application, tick: Callable[[], object]) -> None:
        super().__init__(sandbox, application)
        self._tick = tick
        self._ticks = 0
        self._fruitless = 0
        self._ticking: Future[object] | None = None

    def listen(self, orders: int, *, progressed: bool, is_batch: bool = False) -> None:
        if is_batch and self.application.threads is not None:  # what it waits for happens during a tick
            if self._ticking is None or self._ticking.done():  # it may fail: the application may be away
                self._ticks += self._ticking is not None
                self._ticking = self.application.threads.submit(self._tick)
            self.note_requests(1, _WAIT_SECONDS)
            return
        if self._ticking is not None:  # of a batch: no two ticks at a time
            self._ticking.exception()
            self._ticking = None
        self._fruitless = 0 if progressed else self._fruitless + 1
        if self._fruitless > _TURNS:  # it backs off, in real time
            time.sleep(min(_WAIT_SECONDS, 0.002 * self._fruitless))
        with self._application_is_busy():
            try:
                self._tick()
            except Exception as error:  # noqa: BLE001 - the next tick comes all the same
                self.tick_errors.append(self.describe(error))
        self._ticks += 1
        self.note_requests()

    def note_requests(self, wanted: int = 1, timeout: float = 0.0) -> None:
        super().note_requests(wanted, timeout)
        self._calls += 1

    def poll_counts(self, order: Order) -> dict[int, int]:
        """The ticks count beside the polls of younger orders: one tick for an order that is alone, several if
        an application polls some of many orders with each.
        """
        ticks = self._ticks if self._exclusive is not None else self._ticks // _TICKS_FOR_ALL
        return {**super().poll_counts(order), 0: ticks}


class Inactivity:
    """For how long the application has sent nothing about an order, though it has had its turns."""

    def __init__(self, pacing: Pacing, order: Order) -> None:
        self._pacing = pacing
        self._order = order
        self._began = monotonic()
        self._restart()

    def _restart(self) -> None:
        self._entries = len(self._order.entries)
        self._since, self._before = self._pacing.now(), self._pacing.poll_counts(self._order)

    @property
    def seconds(self) -> float:
        """How long it has lasted, as far as was last seen."""
        return self._pacing.now() - self._since

    def lasts(self, patience: float = 0.0) -> bool:
        """Whether it has sent nothing for `patience` seconds, in which it had its turns."""
        if len(self._order.entries) != self._entries:
            self._restart()
        return self.waited(patience)

    def waited(self, patience: float) -> bool:
        """Whether `patience` seconds have passed, in which it had its turns, whatever it has sent."""
        if self._pacing.is_gone:
            return True
        now = self._pacing.now()
        if now - self._since < patience:
            return False
        counts = self._pacing.poll_counts(self._order)
        if not counts and now - self._since > _WAIT_SECONDS:
            self._pacing.place_liveness_order()
        own = len(self._order.entries) - self._entries
        turns = max([own, *(polls - self._before.get(number, 0) for number, polls in counts.items())])
        if turns >= _TURNS:
            return True
        if monotonic() - self._began < _STARVED_SECONDS:
            return False
        self._order.problems.append(
            "the application polls older orders, and neither this one nor a younger one"
        )
        return True
