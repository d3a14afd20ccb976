"""The garbage collector: tuned in a process that is the server's, left alone in anybody else's."""

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


def printed(script: str) -> list[str]:
    """The words that a script prints, in an interpreter of its own."""
    command = [sys.executable, "-c", script]
    return subprocess.run(command, capture_output=True, text=True, check=True, timeout=60).stdout.split()


def test_a_server_searches_seldom_and_not_through_what_was_there_at_its_start() -> None:
    script = (
        "import gc, paymock.cli.main, paymock.server.uvicorn_server\n"
        "def run(self, sockets):\n"
        "    print(gc.isenabled(), gc.get_threshold()[0], gc.get_freeze_count() > 20_000)\n"
        "paymock.server.uvicorn_server.Server.run = run\n"
        "paymock.cli.main.cli(['serve', '--port', '0'])\n"
    )
    assert printed(script) == ["True", str(THRESHOLDS[0]), "True"]


def test_what_nothing_refers_to_is_still_freed() -> None:
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
    [most] = printed(script)
    assert int(most) < 2 * THRESHOLDS[0]


def test_a_server_in_a_thread_leaves_the_collector_of_its_process_alone() -> None:
    before = gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()
    with serve() as server, server.sandbox() as sandbox:
        sandbox.create()
        assert (gc.isenabled(), gc.get_threshold(), gc.get_freeze_count()) == before


def test_a_refused_creation_leaves_nothing_to_search_for() -> None:
    async def refused() -> weakref.ref[PaymockError]:
        app = UseCases(MemoryStore())
        try:
            await app.create(receive__amount="none")
        except PaymockError as refusal:
            return weakref.ref(refusal)
        raise AssertionError("it was not refused")

    gc.disable()
    try:
        assert asyncio.run(refused())() is None
    finally:
        gc.enable()
