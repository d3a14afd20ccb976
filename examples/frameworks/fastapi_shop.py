"""A shop with FastAPI. A background task of the application polls the payments."""

import asyncio
import time
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager

import httpx
from fastapi import FastAPI, HTTPException

from payments import FINAL, UNKNOWN, asked_pause, payment_of


class Shop:
    def __init__(self, service: httpx.AsyncClient) -> None:
        self.service = service
        # A real shop has a database in place of these:
        self.payment_ids: dict[str, str | None] = {}  # of each order; None until the service has answered
        self.decided: set[str] = set()
        self.delivered: list[str] = []
        self.not_before: dict[str, float] = {}  # when the service takes the next request about an order

    async def order(self, order_id: str) -> str:
        """Takes an order, and returns the id of its payment. After an error, the customer orders again."""
        payment_id = self.payment_ids.setdefault(order_id, None)  # before anything can fail
        if payment_id is None:
            reply = await self.service.post("/v1/payments", **payment_of(order_id))
            payment_id = self.payment_ids[order_id] = str(reply.raise_for_status().json()["id"])
        return payment_id

    async def poll(self) -> None:
        """Reads the payment of each open order once, and delivers what is completed."""
        for order_id in self.payment_ids.keys() - self.decided:
            if time.monotonic() < self.not_before.get(order_id, 0):
                continue
            try:
                reply = await self.service.get(f"/v1/payments/{await self.order(order_id)}")
                status = reply.raise_for_status().json()["status"]
            except UNKNOWN as error:  # says nothing about the payment: the order stays open
                self.not_before[order_id] = time.monotonic() + asked_pause(error)
                continue
            if status == "completed" and order_id not in self.decided:  # another poll may have been first
                self.delivered.append(order_id)
            if status in FINAL:
                self.decided.add(order_id)

    async def work(self, poll_every):
        while True:
            await self.poll()
            await asyncio.sleep(poll_every)


def create_app(url: str, api_key: str, poll_every: float | None = 10, timeout: float = 10) -> FastAPI:
    """The shop. It polls every so many seconds, or, with None, not by itself."""

    @asynccontextmanager
    async def lifespan(app: FastAPI) -> AsyncIterator[None]:
        headers = {"Authorization": f"Bearer {api_key}"}
        service = httpx.AsyncClient(base_url=url, headers=headers, timeout=timeout)
        async with service, asyncio.TaskGroup() as tasks:
            app.state.shop = Shop(service)
            worker = tasks.create_task(app.state.shop.work(poll_every)) if poll_every else None
            yield
            if worker:
                worker.cancel()

    app = FastAPI(lifespan=lifespan)

    @app.post("/orders/{order_id}", status_code=201)
    async def order(order_id: str) -> dict[str, str]:
        try:
            return {"payment_id": await app.state.shop.order(order_id)}
        except UNKNOWN as error:
            raise HTTPException(502, "Please order again.") from error

    @app.get("/deliveries")
    async def deliveries() -> list[str]:
        return list(app.state.shop.delivered)

    return app
