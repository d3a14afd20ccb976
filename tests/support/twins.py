"""Two sandboxes that are told the same, and must answer the same. Only the first is read in between."""

from typing import Any, NamedTuple

import httpx

from tests.support.model import Remembered, plain


class Twins(NamedTuple):
    """Clients of the two sandboxes, and another one of the first, for what is read twice."""

    first: httpx.Client
    other: httpx.Client
    again: httpx.Client

    def begin(self, keys: tuple[str, str]) -> None:
        first, other = keys
        for client, key in ((self.first, first), (self.other, other), (self.again, first)):
            client.headers["Authorization"] = f"Bearer {key}"

    def ask(
        self,
        method: str,
        path: str,
        about: Remembered | None = None,
        *,
        body: Any = None,
        headers: Any = None,
    ) -> list[httpx.Response]:
        """The same request to both: their replies, or none if these are dropped."""
        replies = []
        for number, client in enumerate((self.first, self.other)):
            own = path.format(about.ids[number] if about else "")
            try:
                replies.append(client.request(method, own, json=body, headers=headers))
            except httpx.RemoteProtocolError:
                assert headers["X-Mock-Fault"] == "drop"
        if replies:
            first, other = replies
            assert first.status_code == other.status_code
            assert not first.content or plain(first.json()) == plain(other.json())
            assert first.headers.get("idempotent-replayed") == other.headers.get("idempotent-replayed")
        return replies

    def read(self, path: str) -> Any:
        reply = self.first.get(path)
        assert self.again.get(path).content == reply.content
        assert reply.status_code == 200, reply.text
        return reply.json()
