"""Create requests as bytes, of one API key, and what a server keeps for it."""

import asyncio

from paymock.payments.records import PaymentRecord
from paymock.rules.identifiers import sandbox_of
from tests.support import raw
from tests.support.client import fresh_key
from tests.support.server import RunningServer

KEY = "mk_test_protocol"


AUTHORIZED = {"Authorization": f"Bearer {KEY}"}


GET = raw.request("GET", "/v1/chains", AUTHORIZED)


def creation(body: bytes, more: dict[str, str] | None = None, *, chunk: int | None = None) -> bytes:
    """A create request; with `chunk`, its body in chunks of that size."""
    fields = {
        **AUTHORIZED,
        "Content-Type": "application/json",
        "Idempotency-Key": fresh_key(),
        **(more or {}),
    }
    if chunk is None:
        return raw.request("POST", "/v1/payments", fields, body)
    head = raw.request("POST", "/v1/payments", {**fields, "Transfer-Encoding": "chunked"})
    parts = [body[start : start + chunk] for start in range(0, len(body), chunk)]
    return head + b"".join(b"%x\r\n%s\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"


def stored(server: RunningServer) -> list[tuple[int, bytes]]:
    return asyncio.run(server.store.page(sandbox_of(KEY), PaymentRecord.KIND, limit=9999))
