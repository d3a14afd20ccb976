from collections.abc import Iterator

import pytest

from tests.support.contract import Contract
from tests.support.server import RunningServer
from tests.web.pages.sandbox import Sandbox


@pytest.fixture
def api(server: RunningServer, contract: Contract) -> Iterator[Sandbox]:
    with Sandbox(server.url, contract) as client:
        client.speed(0)
        yield client
