from pathlib import Path

import pytest

from paymock.stores.sqlite import SqliteStore
from tests.stores.contract import StoreContract


class TestSqliteStore(StoreContract):
    @pytest.fixture
    def store(self, tmp_path: Path) -> SqliteStore:
        return SqliteStore(tmp_path / "store.db")
