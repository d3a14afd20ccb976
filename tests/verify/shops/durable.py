"""Shops whose state outlives them, in the folder PAYMOCK_STATE_DIR; they run as processes of their own. The
first ones are right, the others have one bug each.

The orders are in SQLite; the goods leave a warehouse outside of its transactions. A step that takes the
warehouse or the database a moment sleeps for it, so that a crash or another replica can come between.
"""

import contextlib
import math
import os
import sqlite3
import threading
import time
from http.client import HTTPException
from pathlib import Path
from typing import Any, ClassVar
from uuid import uuid4

from tests.verify.shops.base import CLOSED, Shop, creation

FAILURES = (OSError, HTTPException, ValueError)  # no connection, no reply, no JSON


def wait() -> None:
    """What a step takes: 5 ms."""
    time.sleep(0.005)


class KeyedWarehouse(Shop):
    """Ships with the order id as the key of the delivery: shipped again, the goods have already left."""

    own_pace = True
    database: ClassVar[str | None] = "orders.sqlite"

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.folder = Path(os.environ["PAYMOCK_STATE_DIR"])
        self.warehouse = self.folder / "warehouse"
        self.warehouse.mkdir(exist_ok=True)
        path = self.folder / self.database if self.database else ":memory:"
        self.db = sqlite3.connect(path, timeout=10, check_same_thread=False)
        self.lock = threading.RLock()
        self.sql("PRAGMA synchronous = OFF")  # crashes of the machine are not judged
        self.sql(
            "CREATE TABLE IF NOT EXISTS orders "
            "(id PRIMARY KEY, key, payment_id, closed DEFAULT 0, not_before DEFAULT 0)"
        )

    def close(self) -> None:
        super().close()
        self.db.close()

    def sql(self, statement: str, *values: object) -> list[Any]:
        """Execute a statement in a transaction of its own, and return its rows."""
        with self.lock, self.db:
            return self.db.execute(statement, values).fetchall()

    def order(self, order_id: str) -> None:
        self.sql("INSERT OR IGNORE INTO orders (id) VALUES (?)", order_id)
        payment = self.call("POST", "/v1/payments", creation(order_id), self.key(order_id))
        self.sql("UPDATE orders SET payment_id = ? WHERE id = ?", payment["id"], order_id)

    def key(self, order_id: str) -> str:
        """The idempotency key for the payment of an order."""
        return f"payment-of-{order_id}"

    def tick(self) -> None:
        due = "SELECT id, payment_id FROM orders WHERE payment_id NOT NULL AND NOT closed AND not_before <= ?"
        for order_id, payment_id in self.sql(due, time.time()):
            try:
                self.poll(order_id, payment_id)
            except FAILURES as error:
                self.failed(order_id, error)

    def poll(self, order_id: str, payment_id: str) -> None:
        status = self.call("GET", f"/v1/payments/{payment_id}")["status"]
        if status == "completed":
            self.deliver(order_id)
        self.note(order_id, status)

    def failed(self, order_id: str, error: Exception) -> None:
        self.postpone(order_id, getattr(error, "retry_after", 0))

    def postpone(self, order_id: str, seconds: float) -> None:
        self.sql("UPDATE orders SET not_before = ? WHERE id = ?", time.time() + seconds, order_id)

    def claim(self, order_id: str, seconds: float) -> bool:
        """Keep others from reading the order for so long; false if another does."""
        now = time.time()
        claim = "UPDATE orders SET not_before = ? WHERE id = ? AND NOT closed AND not_before <= ? RETURNING 1"
        return self.sql(claim, now + seconds, order_id, now) != []

    def deliver(self, order_id: str) -> None:
        wait()
        self.ship(order_id, order_id)
        wait()

    def note(self, order_id: str, status: str) -> None:
        """Close the order if that status of its payment is the last."""
        if status in CLOSED:
            self.sql("UPDATE orders SET closed = 1 WHERE id = ?", order_id)

    def ship(self, order_id: str, key: str | None = None) -> None:
        """Let the goods out: a file for each delivery. With a `key`, those that are out stay so."""
        (self.warehouse / f"{order_id}.{key or uuid4()}").touch()

    def deliveries(self, order_id: str) -> int:
        return len(list(self.warehouse.glob(f"{order_id}.*")))


# Right


class OneTransaction(KeyedWarehouse):
    """The warehouse is a table. An order closes and ships in one transaction, and stays closed."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.sql("CREATE TABLE IF NOT EXISTS shipped (id)")

    def deliver(self, order_id: str) -> None:
        """Leave it to `note`."""

    def note(self, order_id: str, status: str) -> None:
        if status in CLOSED:
            with self.lock, self.db:
                close = "UPDATE orders SET closed = 1 WHERE id = ? AND NOT closed"
                if self.db.execute(close, [order_id]).rowcount and status == "completed":
                    wait()
                    self.db.execute("INSERT INTO shipped VALUES (?)", [order_id])

    def deliveries(self, order_id: str) -> int:
        return len(self.sql("SELECT * FROM shipped WHERE id = ?", order_id))


class Lease(KeyedWarehouse):
    """Leases an order before it ships. If it dies, the order is taken over when the lease has run out."""

    seconds = 3.0

    def deliver(self, order_id: str) -> None:
        self.postpone(order_id, self.seconds)
        super().deliver(order_id)


class StartsAgain(KeyedWarehouse):
    """The process ends at the first request that fails, and goes on with its orders once it runs again."""

    def order(self, order_id: str) -> None:
        try:
            super().order(order_id)
        except FAILURES:
            os._exit(1)

    def failed(self, order_id: str, error: Exception) -> None:
        super().failed(order_id, error)
        os._exit(1)


# One bug each: what a crash finds


class OnlyInMemory(KeyedWarehouse):
    """The orders are gone after a crash."""

    database = None


class EndsForGood(StartsAgain):
    """The process ends at the first request that fails, and so do its orders."""

    database = None


class KeyInMemory(KeyedWarehouse):
    """Keeps the random key of a creation in memory: after a crash, the next try has another."""

    def key(self, order_id: str) -> str:
        return self.keys.setdefault(order_id, str(uuid4()))


class RecordsAfterCreation(KeyInMemory):
    """Records an order once it has a payment: after a crash before that, the next try has another key."""

    def order(self, order_id: str) -> None:
        payment = self.call("POST", "/v1/payments", creation(order_id), self.key(order_id))
        wait()
        self.sql("INSERT OR IGNORE INTO orders (id, payment_id) VALUES (?, ?)", order_id, payment["id"])


class AcknowledgesFirst(KeyedWarehouse):
    """Tells the customer that all is well, and records the order with the next tick."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.accepted: list[str] = []

    def order(self, order_id: str) -> None:
        self.accepted.append(order_id)

    def tick(self) -> None:
        for order_id in list(self.accepted):
            with contextlib.suppress(*FAILURES):
                super().order(order_id)
                self.accepted.remove(order_id)
        super().tick()


class DeliversThenRecords(KeyedWarehouse):
    """Ships without a key, and then records it: after a crash between, it ships again."""

    def deliver(self, order_id: str) -> None:
        self.ship(order_id)
        wait()


class RecordsThenDelivers(KeyedWarehouse):
    """Records that it has shipped, and then ships: after a crash between, it never does."""

    def deliver(self, order_id: str) -> None:
        self.note(order_id, "completed")
        wait()
        self.ship(order_id, order_id)


class LeaseNeverEnds(Lease):
    """Marks an order as being shipped, and nobody takes over what a process that died has marked."""

    seconds = math.inf


class StaysDown(KeyedWarehouse):
    """Refuses to start while there is the lock file of a process, even of one that was killed."""

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        (self.folder / "lock").touch(exist_ok=False)

    def close(self) -> None:
        super().close()
        (self.folder / "lock").unlink()


# One bug each: what a second replica finds


class ChecksThenShips(KeyedWarehouse):
    """Looks whether the goods are out, and ships them if not: both replicas may look first."""

    def deliver(self, order_id: str) -> None:
        if not self.deliveries(order_id):
            wait()
            self.ship(order_id)


class LockPerProcess(KeyedWarehouse):
    """A lock guards the random key of an order from other threads, but not from the other replica."""

    def key(self, order_id: str) -> str:
        with self.lock:
            [(key,)] = self.sql("SELECT key FROM orders WHERE id = ?", order_id)
            if key is None:
                key = str(uuid4())
                wait()
                self.sql("UPDATE orders SET key = ? WHERE id = ?", key, order_id)
            return str(key)
