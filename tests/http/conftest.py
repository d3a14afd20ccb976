"""What the tests of HTTP share."""

from collections.abc import Iterator

import pytest

from paymock.settings import Settings
from tests.support.fast_paths import Pair
from tests.support.server import running_server


@pytest.fixture(scope="session")
def pair() -> Iterator[Pair]:
    with (
        running_server(Settings(port=0)) as quick,
        running_server(Settings(port=0, fast_path=False)) as plain,
    ):
        yield Pair(quick, plain)
