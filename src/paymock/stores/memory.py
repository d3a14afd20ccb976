"""The embedded store: dictionaries, lost on exit, as the specification says of the mock ("Limits")."""

from collections import defaultdict

from paymock.core.errors import PaymockError


class MemoryStore:
    """A `Store` in this process. Each method runs without a pause, so each is atomic on the event loop."""

    def __init__(self, secret: bytes) -> None:
        self.secret = secret
        self._values: dict[tuple[str, str], bytes] = {}
        self._kinds: defaultdict[tuple[str, str], list[str]] = defaultdict(list)

    async def add(
        self, sandbox: str, key: str, value: bytes, *, kind: str, limit: int | None = None
    ) -> bytes | None:
        existing = self._values.get((sandbox, key))
        if existing is not None:
            return existing
        keys = self._kinds[sandbox, kind]
        if limit is not None and len(keys) >= limit:
            raise PaymockError(
                "capacity_exceeded", f"This API key already has {limit} resources of this kind."
            )
        self._values[sandbox, key] = value
        keys.append(key)
        return None

    async def get(self, sandbox: str, key: str) -> bytes | None:
        return self._values.get((sandbox, key))

    async def list(self, sandbox: str, kind: str) -> list[bytes]:
        return [self._values[sandbox, key] for key in self._kinds.get((sandbox, kind), ())]

    async def ping(self) -> None:
        return None
