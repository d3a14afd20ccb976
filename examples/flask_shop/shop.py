"""A shop: customers order, are sent to where they pay, and get their goods when the payment is completed."""

import logging
import os
from dataclasses import dataclass
from http import HTTPStatus
from threading import Lock
from uuid import uuid4

import httpx
from flask import Flask, abort, redirect
from flask.typing import ResponseReturnValue

STATES = {
    "awaiting_payment": "open",
    "payment_detected": "open",
    "payment_finalized": "paid",  # by the customer; the shop has its money at "completed"
    "settlement_pending": "paid",
    "settlement_submitted": "paid",
    "completed": "paid",
    "expired": "canceled",
    "underpaid_expired": "ask us",
    "overpaid_review": "ask us",
    "manual_review": "ask us",
    "failed": "ask us",
}
"""What the status of a payment means for an order."""

FINAL = {"completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"}
COIN = {"chain": "bsc", "asset": "USDT"}
PRICE = "25000000000000000000"
PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"

log = logging.getLogger(__name__)


@dataclass
class Order:
    """An order, and what the shop knows of its payment: nothing, until the service has answered."""

    payment_id: str | None = None
    checkout: str = ""
    status: str = "awaiting_payment"


def payment_service(url: str, api_key: str, timeout: float = 10) -> httpx.Client:
    """A connection to the payment service. It raises httpx.HTTPError for all but success."""
    return httpx.Client(
        base_url=url,
        headers={"Authorization": f"Bearer {api_key}"},
        timeout=timeout,
        event_hooks={"response": [httpx.Response.raise_for_status]},
    )


class Shop:
    """Orders, and their payments. After an httpx.HTTPError, the customer orders again, or a poll helps."""

    def __init__(self, service: httpx.Client) -> None:
        self.service = service
        self.orders: dict[str, Order] = {}  # a real shop has a database
        self.delivered: list[str] = []  # the delivery log
        self.polling = Lock()

    def order(self, order_id: str) -> str:
        """Takes an order, unless it is known, and returns the URL where its payment is made."""
        order = self.orders.setdefault(order_id, Order())  # before anything can fail
        if order.payment_id is None:
            created = self.service.post(
                "/v1/payments",
                json={
                    "order_id": order_id,
                    "receive": {**COIN, "amount": PRICE, "address": PAYOUT_ADDRESS},
                    "settlement": {"mode": "same_chain_merchant_payout"},
                    "pay_with": [COIN],
                },
                headers={"Idempotency-Key": f"payment-of-{order_id}"},  # the same in every attempt
            )
            order.checkout = str(self.service.base_url.join(created.links["payment"]["url"]))
            order.payment_id = created.json()["id"]
        return order.checkout

    def poll(self) -> None:
        """Reads the payment of each open order once, and delivers what is completed."""
        with self.polling:  # so that no order is delivered by two polls at once
            for order_id, order in list(self.orders.items()):
                if order.status not in FINAL:
                    try:
                        self.update(order_id, order)
                    except httpx.HTTPError as error:  # says nothing about the payment: the order stays open
                        log.warning("%s could not be polled: %s", order_id, error)

    def update(self, order_id: str, order: Order) -> None:
        self.order(order_id)  # creates the payment if that has failed before
        order.status = self.service.get(f"/v1/payments/{order.payment_id}").json()["status"]
        if order.status == "completed":
            self.delivered.append(order_id)


def create_app(service: httpx.Client) -> Flask:
    """The shop, with its payment service."""
    app = Flask(__name__)
    shop = Shop(service)

    @app.post("/orders", defaults={"order_id": None})
    @app.post("/orders/<order_id>")
    def order(order_id: str | None) -> ResponseReturnValue:
        order_id = order_id or f"order-{uuid4()}"
        try:
            return redirect(shop.order(order_id), HTTPStatus.SEE_OTHER)
        except httpx.HTTPError as error:
            log.error("no payment for %s yet: %s", order_id, error)
            abort(HTTPStatus.BAD_GATEWAY, f"Your order is {order_id}. Please try again to pay it.")

    @app.get("/orders")
    def all_orders() -> dict[str, str]:
        return {order_id: STATES[order.status] for order_id, order in shop.orders.items()}

    @app.get("/deliveries/<order_id>")
    def deliveries(order_id: str) -> str:
        return str(shop.delivered.count(order_id))

    @app.post("/poll")  # for cron
    def poll() -> ResponseReturnValue:
        shop.poll()
        return "", HTTPStatus.NO_CONTENT

    return app


def from_environment() -> Flask:
    """The shop as it runs: flask --app shop:from_environment run."""
    timeout = float(os.environ.get("PAYMENTS_TIMEOUT", "10"))
    return create_app(payment_service(os.environ["PAYMENTS_URL"], os.environ["PAYMENTS_API_KEY"], timeout))
