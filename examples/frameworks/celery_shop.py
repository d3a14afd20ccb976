"""A shop with Celery: one task creates the payment of an order, another one follows it."""

import os

from celery import Celery

from payments import FINAL, UNKNOWN, Payments

app = Celery("shop", broker=os.environ.get("BROKER_URL"))
app.conf.update(
    payments_url=os.environ.get("PAYMENTS_URL"),
    payments_api_key=os.environ.get("PAYMENTS_API_KEY"),
    payments_timeout=10,
    task_acks_late=True,  # a task outlives its worker
)
AGAIN = {"autoretry_for": UNKNOWN, "default_retry_delay": 10, "max_retries": None}
"""An error says nothing about a payment: the task comes again, after ten seconds."""

delivered = []  # a real shop has a table in place of this, with the order as its primary key


def order(order_id):
    (create_payment.s(order_id) | follow.s(order_id)).delay()


@app.task(**AGAIN)
def create_payment(order_id):
    return payments().create(order_id)


@app.task(bind=True, **AGAIN)
def follow(self, payment_id, order_id):
    """Reads the payment once, delivers if it is completed, and comes again if it can still change."""
    status = payments().status(payment_id)
    if status == "completed" and order_id not in delivered:
        delivered.append(order_id)
    if status not in FINAL:
        raise self.retry()


def payments():
    return Payments(app.conf.payments_url, app.conf.payments_api_key, app.conf.payments_timeout)
