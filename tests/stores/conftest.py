import asyncio
import inspect
from pathlib import Path
from typing import Any

import pytest

from tests.stores.contract import run


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
def path(tmp_path: Path) -> Path:
    return tmp_path / "store.db"
