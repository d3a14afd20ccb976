import json
import subprocess

import pytest
from playwright.sync_api import expect

from tests.support.client import DUE
from tests.web.pages.browser.steps import Tab, payment_page
from tests.web.pages.sandbox import Sandbox

BARS = """svg => [...svg.querySelectorAll("rect.future")].map(future => {
    const number = (node, name) => Number(node.getAttribute(name));
    const past = number(svg.querySelector("line.now"), "x1") - number(future, "x");
    return [number(future.nextElementSibling, "width"), Math.max(0, Math.min(past, number(future, "width")))];
})"""
"""How much of each bar of the timeline is solid, and how much is past, in pixels."""


def test_timeline_is_solid_up_to_its_line_which_moves_with_the_clock(tab: Tab, api: Sandbox) -> None:
    tab.stop_time()
    api.speed(10)
    payment_page(tab, api.created("happy_path"))
    line, label = tab.picture.locator("line.now"), tab.picture.locator(".now-label")

    def place_of_now() -> float:
        bars = tab.picture.evaluate(BARS)
        assert len(bars) == 1 + 6 + 1  # the window, the statuses, the deposit
        for solid, past in bars:
            assert solid == pytest.approx(past, abs=0.02)
        left, right = label.evaluate("text => [text.getBBox()].map(({ x, width }) => [x, x + width])[0]")
        assert left > -1
        assert right < float(tab.picture.get_attribute("width") or 0) + 1
        return float(line.get_attribute("x1") or 0)

    places = []
    for seconds, text in [(0.2, "now: 2 s"), (0.2, "now: 4 s"), (5, "now: 5 s"), (5, "now: 5 s")]:
        tab.pass_time(seconds)  # the clock runs up to the next step
        expect(label).to_have_text(text)
        places.append(place_of_now())
    assert places[0] < places[1] < places[2] == places[3]
    api.speed(0)
    expect(label).to_have_text("now: 0 s")  # the server's own clock has stood still
    tab.pass_time(60)
    api.advance(27)
    expect(label).to_have_text("now: 27 s")
    place_of_now()
    api.advance(573)
    expect(tab.picture).to_contain_text("ended at 45 s")
    expect(line).to_have_count(0)


def test_payment_is_taken_step_by_step_and_to_its_end(tab: Tab, api: Sandbox) -> None:
    payment = api.created("happy_path")
    other = api.created("happy_path", order_id="another")
    payment_page(tab, payment).keep()
    for event in ("confirmations 0/16", "Confirmations 4/16", "Confirmations 8/16"):
        tab.button("Next step").click()
        expect(tab.page.locator("#table tr:not(.dim)").last).to_contain_text(event)
    tab.announced("Now payment_detected")
    tab.button("+5 s").click()
    expect(tab.page.locator("#own-now")).to_have_text("2030-01-31 12:00:14 UTC")
    expect(tab.page.locator("#ahead")).to_have_text("14 s ahead of the sandbox")
    expect(tab.page.locator("#now")).to_have_text("2030-01-31 12:00:00 UTC")
    tab.button("To the end").click()
    expect(tab.status).to_have_text("completed")
    tab.announced("Now completed")
    tab.button("Next step").click(force=True)  # impossible: it says why, and asks for nothing
    tab.announced("no changes remain")
    expect(tab.button("Next step")).to_be_focused()
    assert len([url for url in tab.requested if url.endswith("/advance")]) == 5
    assert tab.kept()
    assert api.payment(other["id"])["status"] == "awaiting_payment"


def test_requests_appear_as_they_come_and_can_be_sent_again(tab: Tab, api: Sandbox) -> None:
    payment = api.created("late_payment", order_id="it's $HOME", metadata={"note": "'; exit 1; '"})
    api.created(order_id="order-2")
    payment_page(tab, payment)
    expect(tab.rows()).to_contain_text(["POST /v1/payments"])
    tab.button("Copy as curl").click()
    tab.announced("Copied")
    api.payment(payment["id"])
    expect(tab.rows()).to_contain_text(["GET /v1/payments/pay_", "POST /v1/payments"])
    command = tab.copied()
    assert f'-H "Authorization: Bearer {api.api_key}"' in command
    subprocess.run(["/bin/sh", "-c", command], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)
    again, _, first = api.payments()
    own = {"id", "created_at", "updated_at", "expires_at", "attempts"}
    assert {name: again[name] for name in {*again} - own} == {name: first[name] for name in {*first} - own}


def test_ids_amounts_and_json_are_copied_and_the_checkout_is_a_link_away(tab: Tab, api: Sandbox) -> None:
    payment = api.created(metadata={"__proto__": "a", 'quoted "\\': "<b>"})
    address = payment["attempts"][0]["instructions"]["invoice_address"]
    payment_page(tab, payment)
    for name, value in {
        "Copy id": payment["id"],
        "Copy the amount due in raw units": str(DUE),
        "Copy the address": address,
        "Copy JSON": json.dumps(api.payment(payment["id"]), indent=2),
    }.items():
        tab.button(name).click()
        tab.page.wait_for_function(
            "text => navigator.clipboard.readText().then(found => found.trim() === text)", arg=value
        )
    tab.page.get_by_role("link", name="Open checkout").click()
    expect(tab.headline).to_have_text("Waiting for your payment")
