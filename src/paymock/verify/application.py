"""The application under test, as the judge calls it: orders, deliveries, and a tick if it does not poll by
itself.
"""

from collections.abc import Callable
from concurrent.futures import Executor, Future
from typing import Any, NamedTuple, TypeVar

T = TypeVar("T")


class InlineExecutor(Executor):
    """Runs each call at once, in the thread of the caller: the objects of a test need not be thread-safe."""

    def submit(self, fn: Callable[..., T], /, *args: Any, **kwargs: Any) -> Future[T]:
        """Run the call, and return its result or its exception."""
        future: Future[T] = Future()
        try:
            future.set_result(fn(*args, **kwargs))
        except Exception as error:  # noqa: BLE001 - whatever the application raises, the trial judges it
            future.set_exception(error)
        return future


class Application(NamedTuple):
    """The application under test.

    `order` places an order; an exception means that the customer was told so. `deliveries` tells how often
    its goods went out. `tick` lets it poll once; None: it polls by itself.
    """

    order: Callable[[str], object]
    deliveries: Callable[[str], int]
    tick: Callable[[], object] | None
    executor: Executor
