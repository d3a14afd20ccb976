import asyncio
import inspect
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from tests.stores.contract import run
from tests.support.clock import ManualClock


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call(pyfuncitem: pytest.Function) -> bool | None:
    """Runs a test that is a coroutine, and meanwhile opens its fixture `store`; leaves others to pytest."""
    if not inspect.iscoroutinefunction(pyfuncitem.obj):
        return None
    arguments: dict[str, Any] = {name: pyfuncitem.funcargs[name] for name in pyfuncitem._fixtureinfo.argnames}
    test = pyfuncitem.obj(**arguments)
    if "store" in arguments:
        run(arguments["store"], test)
    else:
        asyncio.run(test)
    return True


@pytest.fixture
def clock() -> ManualClock:
    return ManualClock()


@pytest.fixture
def elapse(clock: ManualClock) -> Callable[[float], None]:
    """Let seconds pass by the clock of a store."""
    return clock.advance


@pytest.fixture
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"
