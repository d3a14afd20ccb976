"""The page of the checkout."""

import re
from typing import NoReturn

import pytest

from paymock.http.requests import Body, Request
from paymock.http.responses import Response
from paymock.rules.errors import PaymockError
from paymock.stores.memory import MemoryStore
from paymock.web.pages.handlers import checkout_page
from tests.support.use_cases import UseCases
from tests.support.virtual_time import run


def page(app: UseCases, payment_id: str) -> Response:
    request = Request("GET", "/", {}, Body(b""), params={"payment_id": payment_id})
    return run(checkout_page(app.checkouts, request, frame_ancestors="'none'"))


@pytest.fixture
def app() -> UseCases:
    return UseCases(MemoryStore())


def test_the_page_shows_the_qr_code_and_reloads_until_the_payment_is_final(app: UseCases) -> None:
    payment, _ = run(app.create())
    html = page(app, payment.id).body.decode()
    assert "<svg" in html
    [seconds] = re.findall(r'http-equiv="refresh" content="(\d+)', html)
    assert 1 <= int(seconds) <= 10


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
