"""Texts that would be markup, script, or another path, if they were taken for anything but text."""

from collections.abc import Iterable
from urllib.parse import quote

import pytest
from playwright.sync_api import expect

from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, Tab, visible

HOSTILE = (
    "<script>alert(1)</script>",
    "</script><script>alert(1)</script>",
    "<img src=x onerror=alert(1)>",
    "<svg onload=alert(1)>",
    "\"><img src='https://evil.example/x.png'>",
    "' onmouseover='alert(1)",
    '" autofocus onfocus="alert(1)',
    "javascript:alert(1)",
    "data:text/html,<script>alert(1)</script>",
    "<iframe src=https://evil.example></iframe>",
    "<a href=javascript:alert(1)>click</a>",
    "<style>@import 'https://evil.example/x.css';</style>",
    "<meta http-equiv=refresh content=0;url=https://evil.example>",
    "<base href=https://evil.example/>",
    "<form action=https://evil.example><button>go",
    "<!--",
    "{{ 7 * 7 }}",
    "${alert(1)}",
    "`+alert(1)+`",
    "&lt;b&gt;",
    "&#x3c;script&#x3e;",
    "../../etc/passwd",
    "//evil.example/",
    "?a=b&c=d#e",
    "%3Cscript%3E%00%0d%0a",
    "\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
    "a\N{ZERO WIDTH SPACE}\N{COMBINING ACUTE ACCENT}\N{PILE OF POO}" + "x" * 100,
    "'; DROP TABLE payments; --",
    "constructor",
    "__proto__",
)

MOST_ID = 128
"""Characters of the id of an order."""


def packed(texts: Iterable[str], most: int) -> list[str]:
    """The texts, several in one, but no longer than `most`."""
    found = [""]
    for text in texts:
        if len(found[-1] + text) > most:
            found.append("")
        found[-1] += text
    return found


class TestOrders:
    """With such a text as the order's id, and in its metadata."""

    def test_are_listed_as_text(self, tab: Tab, api: Sandbox) -> None:
        for text in HOSTILE:
            api.created(order_id=text)
        tab.open()
        expect(tab.orders()).to_have_count(len(HOSTILE))
        assert tab.orders().all_text_contents() == [visible(text) for text in reversed(HOSTILE)]

    @pytest.fixture
    def payments(self, api: Sandbox) -> dict[str, str]:
        """The ids of payments that have all of them, by their orders."""
        return {
            text: api.created(order_id=text, metadata={"text": text, text[:40]: "value"})["id"]
            for text in packed(HOSTILE, MOST_ID)
        }

    def test_are_shown_as_text_with_their_payment(self, tab: Tab, payments: dict[str, str]) -> None:
        for text, payment_id in payments.items():
            tab.page.goto(f"{tab.origin}/payments/{payment_id}")
            expect(tab.status).to_be_visible()
            assert tab.headline.text_content() == visible(text)

    def test_are_shown_as_text_with_the_rules_and_requests(self, tab: Tab, api: Sandbox) -> None:
        text = packed(HOSTILE, MOST_ID)[0]
        api.created(order_id=text)
        assert api.post("/_mock/faults", json={"fault": "drop", "order_id": text}).status_code == 201
        tab.open("/requests")
        for rows in (tab.rules(), tab.rows()):
            expect(rows).to_have_count(1)
            assert f"Order {visible(text)}" in (rows.text_content() or "")

    def test_are_shown_as_text_at_the_checkout(self, new_tab: NewTab, payments: dict[str, str]) -> None:
        customer = new_tab()
        for text, payment_id in payments.items():
            customer.open(f"/checkout/{payment_id}")
            shown = text.replace("\N{RIGHT-TO-LEFT OVERRIDE}", "U+202E")
            assert customer.page.locator("#order").text_content() == shown


class TestAddresses:
    """With such a text in the path or in the query."""

    def test_of_payments_lead_to_none(self, tab: Tab) -> None:
        for text in packed(HOSTILE, MOST_ID):
            tab.page.goto(f"{tab.origin}/payments/{quote(text, safe='')}")
            expect(tab.headline).to_have_text("There is no such payment")
            assert text not in tab.page.locator("body").inner_text()
        tab.forgive("404")

    def test_of_checkouts_lead_to_none(self, new_tab: NewTab) -> None:
        customer = new_tab()
        for text in HOSTILE:
            customer.page.goto(f"{customer.origin}/checkout/{quote(text, safe='')}")
            expect(customer.headline).to_have_text("There is no such payment")
            assert text not in customer.page.locator("body").inner_text()
        customer.forgive("404")

    def test_of_lists_say_what_is_wrong(self, tab: Tab) -> None:
        for text in packed(HOSTILE, MOST_ID):
            part = quote(text, safe="")
            tab.page.goto(f"{tab.origin}/?search={part}&status={part}&scenario={part}")
            expect(tab.problem).to_contain_text("must be")
            expect(tab.page.get_by_role("search").get_by_label("Order or payment id")).to_have_value(text)
            assert text not in tab.page.locator("body").inner_text()
        tab.forgive("400")
