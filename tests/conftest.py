"""Fixtures that every test can use."""

import signal
from collections.abc import Iterator

import pytest
from hypothesis import HealthCheck, settings

from tests.support.client import Api
from tests.support.clock import NOON
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server

# A shell lets what it starts in the background ignore SIGINT, and what tests start would inherit that.
signal.signal(signal.SIGINT, signal.default_int_handler)

# How long an example takes says something of the machine, and nothing of the rules.
settings.register_profile("unhurried", deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("unhurried")


@pytest.fixture(scope="session")
def shared_server() -> Iterator[RunningServer]:
    with running_server() as server:
        yield server


@pytest.fixture(scope="session")
def contract(shared_server: RunningServer) -> Contract:
    """What the server promises in its two OpenAPI documents."""
    return Contract.of(shared_server.url, "/openapi.yaml", "/_mock/openapi.yaml")


@pytest.fixture
def server(shared_server: RunningServer) -> RunningServer:
    """The shared server at noon. Each test has its own sandbox; only the clock is shared."""
    shared_server.clock.now = NOON
    return shared_server


@pytest.fixture
def api(server: RunningServer, contract: Contract) -> Iterator[Api]:
    """A client with a sandbox of its own."""
    with Api(server.url, contract) as client:
        yield client
