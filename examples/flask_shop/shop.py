"""A shop: customers order, are sent to where they pay, and can ask what became of their order."""

import os
from http import HTTPStatus
from typing import Any
from uuid import uuid4

import httpx
from flask import Flask, abort, redirect
from flask.typing import ResponseReturnValue

STATES = {
    "awaiting_payment": "open",
    "payment_detected": "open",
    "payment_finalized": "paid",  # nothing is shipped before the money is there for good
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

PRICE = "25000000000000000000"
PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def payment_service(url: str, api_key: str) -> httpx.Client:
    """A connection to the payment service."""
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=10)


def create_app(service: httpx.Client) -> Flask:
    """The shop, with its payment service."""
    app = Flask(__name__)
    orders: dict[str, str] = {}  # the id of the payment of each; a real shop has a database

    @app.post("/orders")
    def order() -> ResponseReturnValue:
        order_id = f"order-{uuid4()}"
        coin = {"chain": "bsc", "asset": "USDT"}
        body = {
            "order_id": order_id,
            "receive": {**coin, "amount": PRICE, "address": PAYOUT_ADDRESS},
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [coin],
        }
        created = service.post("/v1/payments", json=body, headers={"Idempotency-Key": order_id})
        if created.is_error:
            app.logger.error("no payment for %s: %s", order_id, created.text)
            abort(HTTPStatus.BAD_GATEWAY)
        orders[order_id] = created.json()["id"]
        checkout = service.base_url.join(created.links["payment"]["url"])
        return redirect(str(checkout), HTTPStatus.SEE_OTHER)

    @app.get("/orders")
    def all_orders() -> dict[str, Any]:
        return {order_id: state(payment_id) for order_id, payment_id in orders.items()}

    def state(payment_id: str) -> str:
        return STATES[service.get(f"/v1/payments/{payment_id}").raise_for_status().json()["status"]]

    return app


def from_environment() -> Flask:
    """The shop as it runs: flask --app shop:from_environment run."""
    return create_app(payment_service(os.environ["PAYMENTS_URL"], os.environ["PAYMENTS_API_KEY"]))
