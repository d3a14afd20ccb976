import asyncio

import pytest
from fastapi.testclient import TestClient
from fastapi_shop import create_app
from httpx import ASGITransport, AsyncClient


@pytest.fixture
def app(paymock):
    return create_app(paymock.url, paymock.api_key, poll_every=None)  # no background task


def test_a_failed_settlement_is_no_payment(app, paymock):
    paymock.next("settlement_failed")
    with TestClient(app) as client:
        client.post("/orders/order-1001")
        paymock.advance(45)
        client.portal.call(app.state.shop.poll)  # in its event loop
        assert client.get("/deliveries").json() == []


def test_the_background_task_reads_every_status(paymock):
    with TestClient(create_app(paymock.url, paymock.api_key, poll_every=0.12)) as client:
        payment_id = client.post("/orders/order-1001").json()["payment_id"]
        paymock.advance_payment(payment_id, to="completed", until_observed=True)
    assert paymock.requests()[0]["shown"] == "completed"


@pytest.mark.anyio  # which comes with FastAPI
@pytest.mark.parametrize("anyio_backend", ["asyncio"])
async def test_goods_go_out_once_the_payment_is_completed(app, paymock):
    shop = AsyncClient(transport=ASGITransport(app), base_url="http://shop.test")
    async with app.router.lifespan_context(app), shop:
        await shop.post("/orders/order-1001")
        await asyncio.to_thread(paymock.advance, 45)
        await app.state.shop.poll()
        assert (await shop.get("/deliveries")).json() == ["order-1001"]
