from collections.abc import Iterator

import pytest

from tests.support.client import Api
from tests.support.contract import Contract
from tests.support.server import RunningServer


@pytest.fixture
def api(server: RunningServer, contract: Contract) -> Iterator[Api]:
    with Api(server.url, contract) as client:
        client.speed(0)
        yield client
