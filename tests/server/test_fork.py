import gc
import io
import os
import socket
import stat
import subprocess
import sys
import threading
from concurrent.futures import ThreadPoolExecutor

import pytest

from paymock.server.run import serve_in_thread
from paymock.settings import Settings
from paymock.testing import Sandbox, ServerHandle, serve
from paymock.web.telemetry.access_log import RequestLog
from tests.support.forks import forks, in_child

pytestmark = [forks, pytest.mark.process]


IMPORTED_TWICE = """
import os, sys
from paymock.testing import serve

for _ in range(2):
    with serve():
        pass
    del sys.modules["paymock.server.fork"]
    sys.modules.pop("paymock.server.run")
child = os.fork()
if not child:
    os._exit(0)
os.waitpid(child, 0)
print("forked")
"""


def test_a_process_forks_although_modules_were_imported_twice() -> None:
    """As the fixture `pytester` of pytest makes it: it forgets the modules that its test has imported."""
    program = [sys.executable, "-W", "ignore", "-c", IMPORTED_TWICE]
    assert subprocess.check_output(program, text=True, timeout=60) == "forked\n"


def test_a_child_process_uses_the_server_of_its_parent_or_its_own_and_stops_only_that() -> None:
    def use_own() -> int:
        with serve() as own:
            return use(own)

    block = serve()
    server = block.__enter__()
    assert in_child(lambda: use(server)) == in_child(use_own) == 1
    in_child(lambda: block.__exit__(None, None, None))
    assert use(server) == 1
    block.__exit__(None, None, None)


def test_a_child_process_keeps_no_socket_of_the_server() -> None:
    def open_sockets() -> int:
        gc.collect()
        return sum(is_listening_or_accepted(number, port) for number in range(3, 256))

    with serve() as server, server.sandbox() as sandbox:
        sandbox.now()
        port = int(server.url.rpartition(":")[2])
        assert open_sockets() > 0
        assert in_child(open_sockets) == 0


def test_a_child_process_can_write_to_the_log_that_the_server_was_writing_to() -> None:
    out = SlowFile()
    log = RequestLog(out)
    with (
        serve_in_thread(Settings(port=0), log) as url,
        Sandbox(url, "mk_test_demo") as sandbox,
        ThreadPoolExecutor(1) as pool,
    ):
        pool.submit(sandbox.now)
        assert out.begun.wait(60)
        threading.Timer(0.1, out.end.set).start()
        in_child(lambda: log.line("from the child"))


class SlowFile(io.StringIO):
    """A file that is locked while it is written to, which takes until `end`."""

    def __init__(self) -> None:
        super().__init__()
        self.begun, self.end, self._lock = threading.Event(), threading.Event(), threading.Lock()

    def write(self, text: str) -> int:
        with self._lock:
            self.begun.set()
            self.end.wait(60)
            return super().write(text)


def use(server: ServerHandle) -> int:
    with server.sandbox() as sandbox:
        sandbox.create()
        return len(sandbox.payments())


def is_listening_or_accepted(descriptor: int, port: int) -> bool:
    """Whether a descriptor is a socket of the server on this port."""
    try:
        if not stat.S_ISSOCK(os.fstat(descriptor).st_mode):
            return False
    except OSError:  # it is not open
        return False
    with socket.socket(fileno=os.dup(descriptor)) as duplicate:
        return duplicate.family in (socket.AF_INET, socket.AF_INET6) and duplicate.getsockname()[1] == port
