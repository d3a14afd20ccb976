import pytest
from tests.stores.contract import StoreContract

from paymock.stores.memory import MemoryStore


class TestMemoryStore(StoreContract):
    @pytest.fixture
    def store(self) -> MemoryStore:
        return MemoryStore(b"secret")
