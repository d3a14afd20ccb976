"""Texts that would be markup, script, or another path, if they were taken for anything but text."""

import re
from urllib.parse import quote

import httpx
import pytest
from markupsafe import escape
from playwright.sync_api import expect

from tests.web.pages.browser.steps import Tab, visible
from tests.web.pages.sandbox import Sandbox

HOSTILE = (
    "</script><script>alert(1)</script>\"><img src='https://evil.example/x.png' onerror=alert(1)>",
    "' onmouseover='alert(1)\" autofocus onfocus=\"alert(1)javascript:alert(1){{ 7 * 7 }}",
    "<style>@import 'https://evil.example/x.css';</style><meta http-equiv=refresh content=0;url=https://evil.example>",
    "<base href=https://evil.example/>&lt;b&gt;&#x3c;i&#x3e;../../etc/passwd//evil.example/?a=b&c=d#e",
    "%3Cscript%3E%00%0d%0a${alert(1)}`+alert(1)+`<!--\N{RIGHT-TO-LEFT OVERRIDE}gnp.exe",
    "a\N{ZERO WIDTH SPACE}\N{COMBINING ACUTE ACCENT}\N{PILE OF POO}" + "x" * 100,
)


def test_texts_of_an_application_are_text_in_all_that_the_server_renders(api: Sandbox) -> None:
    for text in HOSTILE:
        payment = api.created(order_id=text, metadata={"text": text, text[:40]: "value"})
        assert api.post("/_mock/faults", json={"fault": "drop", "order_id": text}).status_code == 201
        shown = str(escape(visible(text)))
        for path in ("payments", "faults", "requests", f"payments/{payment['id']}"):
            assert shown in without_control(api.fragment(path)), path
            assert text not in api.fragment(path) or text == shown
        assert shown in without_control(api.get(f"/checkout/{payment['id']}").text)
        error = httpx.get(f"{api.base_url}/checkout/{quote(text, safe='')}")
        assert error.status_code == 404
        assert text not in error.text or text == shown


def without_control(html: str) -> str:
    """HTML in which the code points that stand for characters of control are not marked up."""
    return re.sub('<span class="control">(.*?)</span>', r"\1", html)


@pytest.mark.parametrize(
    "text", [HOSTILE[0], *(pytest.param(text, marks=pytest.mark.nightly) for text in HOSTILE[1:])]
)
def test_pages_show_them_as_text_and_run_nothing(tab: Tab, api: Sandbox, text: str) -> None:
    payment = api.created(order_id=text, metadata={"text": text, text[:40]: "value"})
    api.post("/_mock/faults", json={"fault": "drop", "order_id": text})
    expect(tab.open().orders()).to_have_attribute("title", f"{visible(text)}, {payment['id']}")
    tab.orders().click()
    expect(tab.headline).to_have_text(visible(text))
    for path in ("/faults", "/requests"):
        expect(tab.open(path).rows()).to_contain_text([f"Order {visible(text)}"])
    expect(tab.open(f"/checkout/{payment['id']}").page.locator("#order")).to_have_text(visible(text))
    part = quote(text, safe="")
    tab.page.goto(f"{tab.origin}/payments/{part}")
    expect(tab.headline).to_have_text("There is no such payment")
    expect(tab.page.locator("#gone")).to_contain_text(api.api_key.removeprefix("mk_test_"))
    expect(tab.button("Next step")).to_be_hidden()
    tab.page.goto(f"{tab.origin}/?search={part}&status={part}&scenario={part}")
    expect(tab.problem).to_contain_text("must be")
    expect(tab.page.get_by_role("search").get_by_label("Order, id, address or hash")).to_have_value(text)
    assert text not in tab.page.locator("body").inner_text()
    tab.forgive("400", "404")
