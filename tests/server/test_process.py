"""The garbage collector is tuned in a process that only runs a server, and unchanged in any other."""

import asyncio
import gc
import subprocess
import sys
import weakref

import pytest

from paymock.rules.errors import PaymockError
from paymock.server.process import GC_THRESHOLDS
from paymock.stores.memory import MemoryStore
from paymock.testing import serve
from tests.support.use_cases import UseCases


@pytest.mark.process
def test_a_server_collects_rarely_and_excludes_the_objects_of_the_start() -> None:
    script = (
        "import gc, sys, paymock.cli.main, paymock.server.server\n"
        "def run(self):\n"
        "    print(gc.isenabled(), gc.get_threshold(), gc.get_freeze_count() > 20_000)\n"
        "    sys.exit()\n"
        "paymock.server.server.Server.run = run\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    output = subprocess.check_output([sys.executable, "-c", script], text=True)
    assert output == f"True {GC_THRESHOLDS} True\n"


def test_a_server_in_a_thread_does_not_change_the_collector() -> None:
    before = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    with serve() as server, server.sandbox() as sandbox:
        sandbox.create()
        assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == before


def test_a_refused_creation_leaves_no_cycle() -> None:
    async def refuse() -> weakref.ref[PaymockError]:
        app = UseCases(MemoryStore())
        try:
            await app.create(receive__amount="none")
        except PaymockError as refusal:
            return weakref.ref(refusal)
        raise AssertionError("it was not refused")

    gc.disable()
    try:
        assert asyncio.run(refuse())() is None
    finally:
        gc.enable()
