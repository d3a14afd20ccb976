"""A shop with Celery: one task creates the payment of an order, another one follows it."""

import os

from celery import Celery, Task

from payments import FINAL, UNKNOWN, Payments, asked_pause

app = Celery("shop", broker=os.environ.get("BROKER_URL"))
app.conf.update(
    payments_url=os.environ.get("PAYMENTS_URL"),
    payments_api_key=os.environ.get("PAYMENTS_API_KEY"),
    payments_timeout=10,
    task_acks_late=True,  # a task outlives its worker
)


class RetriedTask(Task):
    """An error says nothing about a payment: the task comes again, after ten seconds or what is asked for."""

    autoretry_for, default_retry_delay, max_retries = UNKNOWN, 10, None

    def retry(self, exc=None, **options):
        return super().retry(exc=exc, countdown=max(self.default_retry_delay, asked_pause(exc)), **options)


delivered = []  # a real shop has a table in place of this, with the order as its primary key


def order(order_id):
    (create_payment.s(order_id) | follow.s(order_id)).delay()


@app.task(base=RetriedTask)
def create_payment(order_id):
    return payments().create(order_id)


@app.task(base=RetriedTask, bind=True)
def follow(self, payment_id, order_id):
    """Reads the payment once, delivers if it is completed, and comes again if it can still change."""
    status = payments().status(payment_id)
    if status == "completed" and order_id not in delivered:
        delivered.append(order_id)
    if status not in FINAL:
        raise self.retry()


def payments():
    return Payments(app.conf.payments_url, app.conf.payments_api_key, app.conf.payments_timeout)
