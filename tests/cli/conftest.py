"""Terminals at a server, and at none."""

import socket

import pytest

from tests.cli.terminals import Terminal
from tests.support.client import Api
from tests.support.server import RunningServer


@pytest.fixture
def terminal(server: RunningServer, api: Api) -> Terminal:
    """A terminal at a server whose clock stands still, in the sandbox of `api`."""
    return Terminal(server.url, api.api_key)


@pytest.fixture
def closed() -> Terminal:
    """A terminal at a port where nobody listens."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port = taken.getsockname()[1]
    return Terminal(f"http://127.0.0.1:{port}", "mk_test_demo")
