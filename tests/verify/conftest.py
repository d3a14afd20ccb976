import socket
import threading
from collections.abc import Iterator

import pytest

from paymock.verify import driver, trial
from tests.verify.campaigns import few_side_by_side
from tests.verify.endpoint import Endpoint


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop that polls only when it is given a tick has nothing to say between two ticks, and what it cannot
    say of its deliveries it will not say later. Few orders without a fault show what happens by chance.
    """
    few_side_by_side(monkeypatch, 6)
    monkeypatch.setattr(trial, "SHORT_PATIENCE", 0.02)
    monkeypatch.setattr(trial, "_ASK_SECONDS", 0.2)
    monkeypatch.setattr(driver, "_WAIT_SECONDS", 0.002)


@pytest.fixture
def shop() -> Iterator[Endpoint]:
    with Endpoint() as server:
        thread = threading.Thread(target=server.serve_forever, kwargs={"poll_interval": 0.01})
        thread.start()
        yield server
        server.shutdown()
        thread.join()


@pytest.fixture
def silent_url() -> str:
    """A URL on whose port nothing listens."""
    with socket.create_server(("127.0.0.1", 0)) as listener:
        return f"http://127.0.0.1:{listener.getsockname()[1]}/health"
