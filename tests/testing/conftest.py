"""No server is named in the environment of a test."""

import pytest


@pytest.fixture(autouse=True)
def no_server_elsewhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("PAYMOCK_URL", raising=False)
    monkeypatch.delenv("PAYMOCK_API_KEY", raising=False)
