import re
from html import escape
from typing import NoReturn

import pytest
import segno

from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.rules.errors import PaymockError
from paymock.rules.scenarios import SCENARIOS
from paymock.stores.memory import MemoryStore
from paymock.web.pages.handlers import checkout_page
from tests.support.client import DUE
from tests.support.specification import SHOWN
from tests.support.use_cases import UseCases
from tests.support.virtual_time import run
from tests.web.pages.sandbox import Sandbox, plain

PAY_AGAIN = re.compile(r"(?<!not )\b(send|pay again|pay now|retry|try again)\b", re.IGNORECASE)
"""What must not be said to somebody who has paid, or whose time is up."""


@pytest.mark.parametrize("scenario", SCENARIOS)
def test_checkout_asks_for_what_is_missing_and_for_nothing_later(api: Sandbox, scenario: str) -> None:
    payment = api.created(scenario)
    now = 0
    for at, _, headline, final in SHOWN[scenario]:
        if at:
            api.advance(at - now)
        now = at
        html, checkout = api.get(f"/checkout/{payment['id']}").text, api.checkout(payment)
        assert f"<title>{headline} · paymock</title>" in html
        assert f'<h1 id="headline">{headline}</h1>' in html
        asks = checkout["view"] in {"pay", "detected"} and checkout["missing"]["raw"] != "0"
        main = plain(html.partition("<main")[2])
        missing, received = checkout["missing"], checkout["deposits"]
        amount = f"{'Still to' if received else 'Amount to'} pay Copy amount {missing['tokens']} USDT"
        raw = f"To pay, in raw units {missing['raw']} Due, in raw units {DUE}"
        for part in (amount, raw, "Copy address", "Open in a wallet (mock)", "Time left<", "QR code: "):
            assert (part in html + main) is asks
        for one in received:
            note = f" ({one['note']})" if one["note"] else ""
            assert f"Received {one['tokens']} {one['symbol']}{note} Details" in main
        for text in (checkout["explanation"], "To the shop 1 USDT Service fee 0.01 USDT"):
            assert text in main
        assert ("What happens next:" in main) is not final
        assert asks or not PAY_AGAIN.search(main)
        assert "Mock: do not send real funds" in html


@pytest.mark.parametrize("asset", ["USDT", "BNB"])
@pytest.mark.parametrize("raw", ["1000000000000000000", "1"])
def test_checkout_says_what_to_send_in_words_and_as_a_qr_code(api: Sandbox, asset: str, raw: str) -> None:
    pay_with = [{"chain": "bsc", "asset": asset}]
    payment = api.created(receive__asset=asset, receive__amount=raw, pay_with=pay_with)
    html, checkout = api.get(f"/checkout/{payment['id']}").text, api.checkout(payment)
    address = payment["attempts"][0]["instructions"]["invoice_address"]
    tokens = {"1": "0.000000000000000002", "1000000000000000000": "1.01"}[raw]
    assert f'data-copy="{tokens}"' in html
    assert f'data-copy="{address}"' in html
    assert f'href="{checkout["payment_uri"].replace("&", "&amp;")}"' in html
    assert f'aria-label="QR code: pay {tokens}&nbsp;{asset} on BNB Smart Chain"' in html
    qr_code = segno.make(checkout["payment_uri"], error="m").svg_inline(border=4, lineclass=None)
    assert re.findall(r' d="([^"]+)"', qr_code)[-1] in html
    for text in (
        f"Amount to pay Copy amount {tokens} {asset}",
        "nobody holds the key of this address. Real funds sent there are lost.",
        f"Order id order-1001 Amount due {tokens} {asset} Details",
        f"Chain BNB Smart Chain (chain id 56) Payment {payment['id']}",
    ):
        assert text in plain(html)


def test_the_end_leads_back_to_the_shop_on_the_web(api: Sandbox) -> None:
    for url, leads in (
        ("https://shop.example/orders/1?a=1&b=2", True),
        ("HTTP://localhost:3000", True),
        *(
            (text, False)
            for text in ("javascript:alert(1)", " https://a", "https://a b", "https:///a", "//a", 7)
        ),
    ):
        payment = api.created("no_payment_expired", metadata={"return_url": url})
        link = f'href="{escape(str(url))}" target="_top" rel="noopener">Back to the shop</a>'
        before = api.get(f"/checkout/{payment['id']}").text
        api.move(payment, to="end")
        end = api.get(f"/checkout/{payment['id']}").text
        assert ("Back to the shop" in before, "Back to the shop" in end, link in end) == (False, leads, leads)


def test_checkout_names_shop_and_purchase_and_nothing_else_of_the_metadata(api: Sandbox) -> None:
    for purchase, told in (
        ({"shop": "<b>Tea</b>", "description": "tea & milk", "note": "secret"}, ["<b>Tea</b>", "tea & milk"]),
        ({"shop": "s" * 121, "description": 7}, ["s" * 120, ""]),
        ("secret", ["", ""]),
    ):
        payment = api.created(metadata={"checkout": purchase, "customer": "secret"})
        html, checkout = api.get(f"/checkout/{payment['id']}").text, api.checkout(payment)
        assert [checkout["shop"], checkout["description"]] == told
        assert re.findall('<bdi id="[sd].*?">(.*?)</bdi>', html) == [escape(text) for text in told if text]
        assert "secret" not in html + str(checkout)


def test_checkout_tells_of_the_clock_and_when_to_ask_again_without_javascript(api: Sandbox) -> None:
    frozen = "Clock frozen: nothing happens until a test advances it."
    for speed, seconds, notes, refresh in (
        (0, 9, [frozen], ["10"]),
        (0, 45, [], []),
        (1, 2, [], ["4"]),
        (1, 13, [], ["10"]),
        (60, 0.001, ["The clock runs at \N{MULTIPLICATION SIGN}60."], ["1"]),
        (1, 45, [], []),
        (0, 31, [], ["10"]),  # expired: nothing lies ahead, but a deposit may come
    ):
        api.speed(speed)
        payment = api.created("no_payment_expired" if seconds == 31 else "happy_path")
        api.move(payment, seconds=seconds)
        html = api.get(f"/checkout/{payment['id']}").text
        assert re.findall("(?:The clock|Clock) [^<]*", html) == notes
        found = re.findall('<noscript><meta http-equiv="refresh" content="([0-9]+)"></noscript>', html)
        assert found == refresh


def page(app: UseCases, payment_id: str, *, in_memory: bool = True) -> Response:
    request = Request("GET", "/", {}, params={"payment_id": payment_id})
    return run(checkout_page(app.checkouts, request, frame_ancestors="'none'", in_memory=in_memory))


@pytest.fixture
def app() -> UseCases:
    return UseCases(MemoryStore())


def test_the_page_of_an_unknown_payment_is_a_message_for_customers(app: UseCases) -> None:
    for in_memory in (True, False):
        response = page(app, "pay_unknown", in_memory=in_memory)
        assert (response.status, response.error) == (404, "payment_not_found")
        assert response.content_type == "text/html; charset=utf-8"
        assert b"No payment has this id." in response.body
        assert (b"Or the server was restarted" in response.body) is in_memory


def test_the_page_reloads_while_the_store_is_down(app: UseCases, monkeypatch: pytest.MonkeyPatch) -> None:
    async def show(payment_id: str) -> NoReturn:
        raise PaymockError("store_unavailable", "The store does not answer.")

    assert b'http-equiv="refresh"' not in page(app, "pay_unknown").body
    monkeypatch.setattr(app.checkouts, "show", show)
    response = page(app, "pay_any")
    assert (response.status, response.error) == (503, "store_unavailable")
    for text in (b"Temporarily unavailable", b'http-equiv="refresh" content="10"', b"again every 10 seconds"):
        assert text in response.body
