"""The garbage collector is tuned in a process that only runs a server, and unchanged in any other."""

import asyncio
import gc
import subprocess
import sys
import weakref

from paymock.rules.errors import PaymockError
from paymock.server.garbage_collection import THRESHOLDS
from paymock.stores.memory import MemoryStore
from paymock.testing import serve
from tests.support.use_cases import UseCases


def output_of(script: str) -> list[str]:
    """Run a script in an interpreter of its own, and return the words that it prints."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()


def test_a_server_collects_rarely_and_excludes_the_objects_of_the_start() -> None:
    script = (
        "import gc, paymock.cli.main, paymock.server.uvicorn_server\n"
        "def run(self, sockets):\n"
        "    print(gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 20_000)\n"
        "paymock.server.uvicorn_server.Server.run = run\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    assert output_of(script) == ["True", str(THRESHOLDS[0]), "True"]


def test_cycles_are_still_freed() -> None:
    script = (
        "from paymock.server import garbage_collection\n"
        "class Node:\n"
        "    alive = most = 0\n"
        "    def __init__(self):\n"
        "        self.itself = self\n"
        "        Node.alive += 1; Node.most = max(Node.most, Node.alive)\n"
        "    def __del__(self): Node.alive -= 1\n"
        "garbage_collection.suspend(); garbage_collection.resume()\n"
        "for _ in range(200_000): Node()\n"
        "print(Node.most)\n"
    )
    [most] = output_of(script)
    assert int(most) < 2 * THRESHOLDS[0]


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
