import pytest

from paymock.verify import trial


@pytest.fixture
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """A shop that polls only when it is given a tick has nothing to say between two ticks."""
    monkeypatch.setattr(trial, "SHORT_PATIENCE", 0.02)
    monkeypatch.setattr(trial, "PATIENCE", 0.05)
