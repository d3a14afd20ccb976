"""No test reads the settings of a remote server from the environment."""

import pytest


@pytest.fixture(autouse=True)
def no_remote_server(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAYMOCK_URL", raising=False)
    monkeypatch.delenv("PAYMOCK_API_KEY", raising=False)
