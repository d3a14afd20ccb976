"""Serves the page, and creates payments for it: the API key stays here, and no browser sees it."""

import os
from uuid import uuid4

import httpx
from flask import Flask
from flask.typing import ResponseReturnValue

PAYOUT_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def create_app(url: str, api_key: str) -> Flask:
    """The shop, with the payment service at `url`."""
    app = Flask(__name__, static_folder="page", static_url_path="/")

    @app.get("/")
    def page() -> ResponseReturnValue:
        return app.send_static_file("index.html")

    @app.post("/buy")
    def buy() -> ResponseReturnValue:
        order_id = f"order-{uuid4()}"
        coin = {"chain": "bsc", "asset": "USDT"}
        body = {
            "order_id": order_id,
            "receive": {**coin, "amount": str(25 * 10**18), "address": PAYOUT_ADDRESS},
            "settlement": {"mode": "same_chain_merchant_payout"},
            "pay_with": [coin],
        }
        headers = {"Authorization": f"Bearer {api_key}", "Idempotency-Key": order_id}
        payment = httpx.post(f"{url}/v1/payments", json=body, headers=headers).raise_for_status().json()
        return {"checkout": f"{url}/checkout/{payment['id']}"}, 201

    return app


def from_environment() -> Flask:
    """The shop as it runs: flask --app server:from_environment run."""
    return create_app(os.environ["PAYMENTS_URL"], os.environ["PAYMENTS_API_KEY"])
