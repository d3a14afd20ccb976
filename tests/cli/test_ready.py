"""`ready`."""

import json
import secrets
import socket
import threading

from paymock.settings import Settings
from tests.cli.terminal import Terminal
from tests.support.server import RunningServer, running_server


def test_ready_needs_no_key(terminal: Terminal, server: RunningServer) -> None:
    assert terminal.text("ready", PAYMOCK_API_KEY="not a key") == f"ready  {server.url}\n"
    assert terminal.json("ready") == {"ready": True, "url": server.url}


def test_ready_distinguishes_unreachable_from_timeout(unconnected: Terminal) -> None:
    message = unconnected.fails(4, "ready", "--wait", "0.1")
    assert "not ready within 0.1 s: cannot reach" in message
    outcome = unconnected.run("ready", "--json")
    assert (outcome.returncode, json.loads(outcome.stdout)["ready"]) == (3, False)


def test_ready_retries_until_the_server_starts() -> None:
    is_ready = threading.Event()
    port = 20_000 + secrets.randbelow(10_000)  # clients of other tests get higher ones while it is free
    with socket.create_server(("127.0.0.1", port)) as listener:

        def start_after_an_attempt() -> None:
            listener.accept()[0].close()
            listener.close()
            with running_server(Settings(port=port)):
                is_ready.wait()

        thread = threading.Thread(target=start_after_an_attempt)
        thread.start()
        url = f"http://127.0.0.1:{port}"
        assert Terminal(url, "").text("ready", "--wait", "60") == f"ready  {url}\n"
        is_ready.set()
        thread.join()
