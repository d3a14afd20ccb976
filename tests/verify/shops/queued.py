"""Shops whose orders are messages of dramatiq, and whose goods are rows of SQLAlchemy: judged at night."""

from importlib import import_module
from threading import Lock
from typing import Any, ClassVar

from tests.verify.shops.base import Shop, creation

dramatiq: Any = import_module("dramatiq")  # only the environment of the night has these two
sql: Any = import_module("sqlalchemy")


class Queued(Shop):
    """What fails is left to the retries of dramatiq: it comes again after 15 s, and is never given up."""

    own_pace = True
    retries: ClassVar[dict[str, Any]] = {"max_retries": None, "min_backoff": 15_000, "max_backoff": 15_000}

    def __init__(self, url: str, api_key: str) -> None:
        super().__init__(url, api_key)
        self.broker = import_module("dramatiq.brokers.stub").StubBroker()
        self.follow = dramatiq.actor(self.look, actor_name="follow", broker=self.broker, **self.retries)
        self.lock = Lock()
        shared = {"poolclass": sql.StaticPool, "connect_args": {"check_same_thread": False}}
        self.engine = sql.create_engine("sqlite://", **shared)
        self.goods = sql.Table("goods", sql.MetaData(), sql.Column("id", sql.String, primary_key=True))
        self.goods.metadata.create_all(self.engine)

    def start(self) -> None:
        self.worker = dramatiq.Worker(self.broker, worker_threads=8, worker_timeout=20)
        self.worker.start()

    def close(self) -> None:
        self.worker.stop()

    def order(self, order_id: str) -> None:
        self.follow.send(order_id, None)

    def look(self, order_id: str, payment_id: str | None) -> None:
        created = payment_id is None and self.call("POST", "/v1/payments", creation(order_id), order_id)
        payment = created or self.call("GET", f"/v1/payments/{payment_id}")
        if payment["status"] == "completed":
            self.deliver(order_id)
        if not self.closes(order_id, payment["status"]):
            self.follow.send_with_options(args=(order_id, payment["id"]), delay=100)

    def deliver(self, order_id: str) -> None:
        insert = sql.insert(self.goods).prefix_with("OR IGNORE").values(id=order_id)
        with self.lock, self.engine.begin() as transaction:
            transaction.execute(insert)

    def deliveries(self, order_id: str) -> int:
        with self.lock, self.engine.begin() as transaction:
            return len(transaction.execute(sql.select(self.goods).filter_by(id=order_id)).all())


class QueuedThreeTimes(Queued):
    """A message that has failed three times is dead, and nobody looks at its order again."""

    retries: ClassVar[dict[str, Any]] = {"max_retries": 3, "min_backoff": 100, "max_backoff": 200}
