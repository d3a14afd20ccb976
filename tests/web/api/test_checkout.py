"""The checkout over HTTP: its page, its data and its events."""

import json
import re
from typing import NoReturn

import pytest

from paymock.rules.errors import PaymockError
from paymock.stores.memory import MemoryStore
from paymock.web.api import checkout
from paymock.web.http.requests import Body, Request
from paymock.web.http.responses import Response
from tests.support.use_cases import UseCases
from tests.support.virtual_time import run


def request(payment_id: str) -> Request:
    return Request("GET", "/", {}, Body(b""), params={"payment_id": payment_id})


def page(app: UseCases, payment_id: str, frame_ancestors: str = "'none'") -> Response:
    return run(checkout.page(app.checkouts, request(payment_id), frame_ancestors=frame_ancestors))


def created(app: UseCases) -> str:
    payment, _ = run(app.create())
    return payment.id


@pytest.fixture
def app() -> UseCases:
    return UseCases(MemoryStore())


def test_the_page_shows_the_qr_code_and_reloads_until_the_payment_is_final(app: UseCases) -> None:
    html = page(app, created(app)).body.decode()
    assert "<svg" in html
    [seconds] = re.findall(r'http-equiv="refresh" content="(\d+)', html)
    assert 1 <= int(seconds) <= 10


def test_the_page_says_who_may_embed_it(app: UseCases) -> None:
    headers = dict(page(app, created(app), "https://shop.example").headers)
    assert "frame-ancestors https://shop.example" in headers["Content-Security-Policy"]


def test_the_page_of_an_unknown_payment_is_a_message_for_customers(app: UseCases) -> None:
    response = page(app, "pay_unknown")
    assert (response.status, response.error) == (404, "payment_not_found")
    assert response.content_type == "text/html; charset=utf-8"
    assert b"No payment has this id." in response.body


def test_the_page_tries_again_while_the_store_is_not_available(
    app: UseCases, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def show(payment_id: str) -> NoReturn:
        raise PaymockError("store_unavailable", "The store does not answer.")

    assert b'http-equiv="refresh"' not in page(app, "pay_unknown").body
    monkeypatch.setattr(app.checkouts, "show", show)
    response = page(app, "pay_any")
    assert (response.status, response.error) == (503, "store_unavailable")
    for text in (b"Not available just now", b'http-equiv="refresh" content="10"', b"again every 10 seconds"):
        assert text in response.body


@pytest.mark.parametrize(
    ("order_id", "shown"),
    [
        ("order-1001", "order-1001"),
        ("1\u202e4321", '1<span class="control">U+202E</span>4321'),
        (
            "\u2066<b>\u061c",
            '<span class="control">U+2066</span>&lt;b&gt;<span class="control">U+061C</span>',
        ),
        ("\u05e9\u05dc\u05d5\u05dd", "\u05e9\u05dc\u05d5\u05dd"),
    ],
)
def test_the_order_is_isolated_and_its_bidirectional_controls_are_visible(
    app: UseCases, order_id: str, shown: str
) -> None:
    payment, _ = run(app.create(order_id=order_id))
    assert f'<bdi id="order">{shown}</bdi>' in page(app, payment.id).body.decode()


def test_the_events_begin_with_the_data(app: UseCases) -> None:
    payment_id = created(app)

    async def first_event() -> bytes:
        response = await checkout.events(app.checkouts, request(payment_id))
        assert response.stream is not None
        await response.stream.aclose()
        return response.body.split(b"data: ")[1]

    data = run(checkout.data(app.checkouts, request(payment_id)))
    assert json.loads(run(first_event())) == json.loads(data.body)
