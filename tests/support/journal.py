"""Journals as `Sandbox.requests()` returns them, without a server."""

from typing import Any

from paymock.rules.times import to_rfc3339
from paymock.schemas.control import JournalEntry
from tests.support.clock import NOON

ORDER = "order-1001"
PAYMENT = "pay_" + "a" * 40


class JournalWriter:
    """Writes the entries of one application. `wait` lets real or virtual time pass."""

    def __init__(self) -> None:
        self.oldest_first: list[dict[str, Any]] = []
        self._real = self._virtual = NOON

    @property
    def entries(self) -> list[dict[str, Any]]:
        """The journal, newest first."""
        return self.oldest_first[::-1]

    @property
    def structs(self) -> list[JournalEntry]:
        """What the judge sees, oldest first."""
        blank: dict[str, Any] = dict.fromkeys(JournalEntry.__struct_fields__)
        return [JournalEntry(**{**blank, **entry}) for entry in self.oldest_first]

    def wait(self, real: float = 0, virtual: float = 0) -> None:
        """Let seconds pass."""
        self._real += round(real * 1000)
        self._virtual += round(virtual * 1000)

    def creation(
        self, idempotency: str | None = "new", payment_id: str | None = PAYMENT, **changes: Any
    ) -> str:
        """Add a creation, which showed the payment unless `status` or `fault` are given; return its id."""
        shown = None if changes.keys() & {"status", "fault"} else "awaiting_payment"
        created = {"operation": "createPayment", "status": 201, "shown": shown}
        return self._add(**{**created, "idempotency": idempotency, "payment_id": payment_id, **changes})

    def read(self, shown: str | None = "awaiting_payment", **changes: Any) -> str:
        """Add a read of the payment; return its id."""
        return self._add(**{"operation": "getPayment", "shown": shown, **changes})

    def _add(self, **changes: Any) -> str:
        entry = {
            "at": to_rfc3339(self._real),
            "status": 200,
            "error": None,
            "payment_id": PAYMENT,
            "idempotency": None,
            "request_id": f"req_{len(self.oldest_first) + 1}",
            "duration_ms": 0.4,
            "operation": "listChains",
            "order_id": ORDER,
            "shown": None,
            "fault": None,
            "virtual_at": to_rfc3339(self._virtual),
        }
        self.oldest_first.append({**entry, **changes})
        return str(entry["request_id"])


def payment(payment_id: str = PAYMENT, **changes: Any) -> dict[str, Any]:
    """A payment as `Sandbox.payments()` lists it."""
    fixed = {"scenario": "happy_path", "metadata": {}, "created_at": to_rfc3339(NOON)}
    return {"id": payment_id, "order_id": ORDER, **fixed, **changes}
