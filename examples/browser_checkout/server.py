"""Serves the page, creates payments for it, and delivers: the API key stays here, and no browser sees it."""

import os
from contextlib import suppress
from http import HTTPStatus
from threading import Lock
from uuid import uuid4

import httpx
from flask import Flask, request
from flask.typing import ResponseReturnValue

FINAL = {"completed", "expired", "underpaid_expired", "overpaid_review", "manual_review", "failed"}
COIN = {"chain": "bsc", "asset": "USDT"}
PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


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
        self.polling = Lock()
        # A real shop has a database in place of these:
        self.payment_ids: dict[str, str | None] = {}  # of each order; None until the service has answered
        self.decided: set[str] = set()
        self.delivered: list[str] = []

    def order(self, order_id: str) -> str:
        """Takes an order, unless it is known, and returns the id of its payment."""
        payment_id = self.payment_ids.setdefault(order_id, None)  # before anything can fail
        if payment_id is None:
            body = {
                "order_id": order_id,
                "receive": {**COIN, "amount": str(25 * 10**18), "address": PAYOUT_ADDRESS},
                "settlement": {"mode": "same_chain_merchant_payout"},
                "pay_with": [COIN],
            }
            headers = {"Idempotency-Key": f"payment-of-{order_id}"}  # the same in every attempt
            payment_id = str(self.service.post("/v1/payments", json=body, headers=headers).json()["id"])
            self.payment_ids[order_id] = payment_id
        return payment_id

    def poll(self) -> None:
        """Reads the payment of each open order once, and delivers what is completed."""
        with self.polling:  # so that no order is delivered by two polls at once
            for order_id in self.payment_ids.keys() - self.decided:
                with suppress(httpx.HTTPError):  # says nothing about the payment: the order stays open
                    status = self.service.get(f"/v1/payments/{self.order(order_id)}").json()["status"]
                    if status in FINAL:
                        self.decided.add(order_id)
                    if status == "completed":
                        self.delivered.append(order_id)

    def deliveries(self, order_id: str) -> int:
        """How often an order was delivered."""
        return self.delivered.count(order_id)


def create_app(service: httpx.Client) -> Flask:
    """The shop, with its payment service."""
    app = Flask(__name__, static_folder="page", static_url_path="/")
    shop = Shop(service)

    @app.get("/")
    def page() -> ResponseReturnValue:
        return app.send_static_file("index.html")

    @app.post("/buy")
    def buy() -> ResponseReturnValue:
        order_id = request.form.get("order_id") or f"order-{uuid4()}"
        try:
            payment_id = shop.order(order_id)
        except httpx.HTTPError as error:
            app.logger.error("no payment for %s yet: %s", order_id, error)
            return {"order_id": order_id, "error": "Please try again."}, HTTPStatus.BAD_GATEWAY
        return {"checkout": str(service.base_url.join(f"/checkout/{payment_id}"))}, HTTPStatus.CREATED

    @app.post("/poll")  # for cron
    def poll() -> ResponseReturnValue:
        shop.poll()
        return "", HTTPStatus.NO_CONTENT

    @app.get("/deliveries/<order_id>")
    def deliveries(order_id: str) -> str:
        return str(shop.deliveries(order_id))

    return app


def from_environment() -> Flask:
    """The shop as it runs: flask --app server:from_environment run."""
    return create_app(payment_service(os.environ["PAYMENTS_URL"], os.environ["PAYMENTS_API_KEY"]))
