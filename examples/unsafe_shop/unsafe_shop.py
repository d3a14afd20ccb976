"""A shop that looks right, and loses money. Do not copy it: ../flask_shop is the one to copy."""

import os
from http import HTTPStatus
from uuid import uuid4

import httpx
from flask import Flask, abort, redirect
from flask.typing import ResponseReturnValue

OPEN = {"awaiting_payment", "payment_detected"}
PAID = {"payment_finalized", "settlement_pending", "settlement_submitted", "completed"}
PRICE = "25000000000000000000"
PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def payment_service(url: str, api_key: str, timeout: float = 10) -> httpx.Client:
    """A connection to the payment service."""
    return httpx.Client(base_url=url, headers={"Authorization": f"Bearer {api_key}"}, timeout=timeout)


def create_app(service: httpx.Client) -> Flask:
    """The shop, with its payment service."""
    app = Flask(__name__)
    open_orders: dict[str, str] = {}  # the id of the payment of each
    delivered: list[str] = []

    @app.post("/orders/<order_id>")
    def place_order(order_id: str) -> ResponseReturnValue:
        coin = {"chain": "bsc", "asset": "USDT"}
        body = {
            "order_id": order_id,
            "receive": {**coin, "amount": PRICE, "address": PAYOUT_ADDRESS},
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [coin],
        }
        headers = {"Idempotency-Key": str(uuid4())}
        try:
            created = service.post("/v1/payments", json=body, headers=headers).raise_for_status()
        except httpx.HTTPError as error:
            app.logger.error("no payment for %s: %s", order_id, error)
            abort(HTTPStatus.BAD_GATEWAY)
        open_orders[order_id] = created.json()["id"]
        checkout = service.base_url.join(created.links["payment"]["url"])
        return redirect(str(checkout), HTTPStatus.SEE_OTHER)

    @app.get("/deliveries/<order_id>")
    def deliveries(order_id: str) -> str:
        return str(delivered.count(order_id))

    @app.post("/poll")
    def poll() -> ResponseReturnValue:
        for order_id, payment_id in list(open_orders.items()):
            try:
                status = service.get(f"/v1/payments/{payment_id}").raise_for_status().json()["status"]
            except httpx.HTTPError as error:
                app.logger.error("payment of %s failed: %s", order_id, error)
                status = "failed"
            if status in PAID:
                delivered.append(order_id)
            if status not in OPEN:
                del open_orders[order_id]
        return "", HTTPStatus.NO_CONTENT

    @app.get("/ready")
    def ready() -> str:
        return "ready"

    return app


def from_environment() -> Flask:
    """The shop as it runs: flask --app unsafe_shop:from_environment run."""
    timeout = float(os.environ.get("PAYMENTS_TIMEOUT", "10"))
    return create_app(payment_service(os.environ["PAYMENTS_URL"], os.environ["PAYMENTS_API_KEY"], timeout))
