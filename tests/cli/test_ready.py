"""`ready`."""

import json
import socket

from paymock.settings import Settings
from tests.cli.terminal import Terminal, read_lines
from tests.support.server import RunningServer, running_server


def test_ready_needs_no_key(terminal: Terminal, server: RunningServer) -> None:
    assert terminal.text("ready", PAYMOCK_API_KEY="not a key") == f"ready  {server.url}\n"
    assert terminal.json("ready") == {"ready": True, "url": server.url}


def test_ready_distinguishes_unreachable_from_timeout(unconnected: Terminal) -> None:
    assert "Connection refused" in unconnected.fails(3, "ready")
    message = unconnected.fails(4, "ready", "--wait", "0.1")
    assert "not ready within 0.1 s: cannot reach" in message
    outcome = unconnected.run("ready", "--json")
    assert (outcome.returncode, json.loads(outcome.stdout)["ready"]) == (3, False)


def test_ready_retries_until_the_server_starts() -> None:
    with socket.create_server(("127.0.0.1", 0)) as listener:
        port = listener.getsockname()[1]
        with Terminal(f"http://127.0.0.1:{port}", "").start("ready", "--wait", "15") as process:
            listener.accept()[0].close()  # the first attempt fails
            listener.close()
            with running_server(Settings(port=port)) as server:
                assert read_lines(process, 1) == [f"ready  {server.url}"]
                assert process.wait() == 0
