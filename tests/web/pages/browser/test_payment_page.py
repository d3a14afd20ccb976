import json
import subprocess

import pytest
from playwright.sync_api import expect

from tests.support.client import DUE
from tests.web.pages.browser.steps import Tab
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
    tab.open(f"/payments/{api.created('happy_path')['id']}")
    line, label = tab.picture.locator("line.now"), tab.picture.locator(".now-label")
    expect(label).to_have_text("now: 0 s")

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
    for seconds, text in [(0.2, "now: 2 s"), (0.2, "now: 4 s"), (0.2, "now: 5 s"), (0.2, "now: 5 s")]:
        tab.pass_time(seconds)  # the clock runs up to the next step
        expect(label).to_have_text(text)
        places.append(place_of_now())
    assert places[0] < places[1] < places[2] == places[3]
    api.speed(0)
    tab.poll()
    expect(label).to_have_text("now: 0 s")  # the server's own clock has stood still
    tab.pass_time(60)
    api.advance(27)
    tab.poll()
    expect(label).to_have_text("now: 27 s")
    place_of_now()
    api.advance(573)
    tab.poll()
    expect(tab.picture).to_contain_text("ended at 45 s")
    expect(line).to_have_count(0)


def test_requests_appear_and_what_is_shown_is_copied_and_sent_again(tab: Tab, api: Sandbox) -> None:
    metadata = {"note": "'; exit 1; '", "__proto__": "a", 'quoted "\\': "<b>"}
    payment = api.created("late_payment", order_id="it's $HOME", metadata=metadata)
    tab.open(f"/payments/{payment['id']}")
    expect(tab.rows()).to_contain_text(["POST /v1/payments"])
    tab.button("Copy as curl").click()
    tab.announced("Copied")
    command = tab.copied()
    text = json.dumps(api.payment(payment["id"]), indent=2)
    expect(tab.rows()).to_contain_text(["GET /v1/payments/pay_", "POST /v1/payments"])
    for name, value in {
        "Copy id": payment["id"],
        "Copy the amount due in raw units": str(DUE),
        "Copy the address": payment["attempts"][0]["instructions"]["invoice_address"],
        "Copy JSON": text,
    }.items():
        tab.button(name).click()
        tab.page.wait_for_function(
            "text => navigator.clipboard.readText().then(found => found.trim() === text)", arg=value
        )
    tab.page.get_by_role("link", name="Open checkout").click()
    expect(tab.headline).to_have_text("Waiting for your payment")
    assert f'-H "Authorization: Bearer {api.api_key}"' in command
    subprocess.run(["/bin/sh", "-c", command], env={"PATH": "/usr/bin:/bin"}, capture_output=True, check=True)
    own = {"id", "created_at", "updated_at", "expires_at", "attempts"}
    again, first = ({name: one[name] for name in {*one} - own} for one in api.payments())
    assert again == first
