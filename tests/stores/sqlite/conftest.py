from pathlib import Path

import pytest

from paymock.stores.sqlite.store import SqliteStore


@pytest.fixture
def store(path: Path) -> SqliteStore:
    return SqliteStore(path)
