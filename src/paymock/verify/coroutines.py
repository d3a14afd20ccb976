"""Coroutines without an event loop: each goes on in the thread of its caller, by turns.

The objects of a test belong to its thread, and `verify` may itself be called in an event loop. Nothing of
asyncio works in them, not even `asyncio.sleep`: they wait by `turn`, and read the clock.
"""

from collections.abc import Callable, Coroutine, Generator
from types import coroutine
from typing import Any

from paymock.client.http import monotonic


@coroutine
def turn() -> Generator[None, None, None]:
    """Wait until the application could have sent something."""
    yield


async def until(is_reached: Callable[[], bool], seconds: float = float("inf")) -> bool:
    """Wait until something is reached; return whether it is, within so many seconds."""
    deadline = monotonic() + seconds
    while not (reached := is_reached()) and monotonic() < deadline:
        await turn()
    return reached


async def together(*waiting: Coroutine[Any, Any, object]) -> None:
    """Run coroutines side by side. If it is closed, so are they."""
    left = [*waiting]
    try:
        while left := [one for one in left if not step(one)]:
            await turn()
    finally:
        for one in left:
            one.close()


def step(waiting: Coroutine[Any, Any, object]) -> bool:
    """Let a coroutine go on to its next turn, and return whether it has ended."""
    try:
        waiting.send(None)
    except StopIteration:
        return True
    return False
