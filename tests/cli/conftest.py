import socket
from pathlib import Path

import pytest

from tests.cli.terminal import Terminal
from tests.support.client import Api
from tests.support.courses import OTHER_CATALOG
from tests.support.server import RunningServer


@pytest.fixture
def terminal(server: RunningServer, api: Api) -> Terminal:
    """A terminal for a server with a frozen clock, in the sandbox of `api`."""
    return Terminal(server.url, api.api_key)


@pytest.fixture
def port() -> int:
    """A port on which nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return int(listener.getsockname()[1])


@pytest.fixture
def unconnected(port: int) -> Terminal:
    """A terminal for a port on which no server listens."""
    return Terminal(f"http://127.0.0.1:{port}", "mk_test_demo")


@pytest.fixture
def catalog(tmp_path: Path) -> str:
    path = tmp_path / "chains.toml"
    path.write_text(OTHER_CATALOG)
    return str(path)
