from collections.abc import Iterator

import pytest

from tests.support.client import Api
from tests.support.contract import Contract
from tests.support.server import RunningServer


@pytest.fixture
def api(server: RunningServer, contract: Contract) -> Iterator[Api]:
    with Api(server.url, contract) as client:
        assert client.put("/_mock/clock", json={"speed": 0}).status_code == 200
        yield client
