"""What a merchant's backend has asked for, at `/requests`."""

import contextlib

import httpx
import pytest
from playwright.sync_api import expect

from tests.support.client import order
from tests.web.pages.steps import Sandbox, Tab


def test_requests_appear_as_they_come_newest_first(tab: Tab, api: Sandbox) -> None:
    tab.open("/requests").keep()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    payment = api.created(order_id="order-1")
    expect(tab.rows()).to_have_count(1)
    api.payment(payment["id"])
    expect(tab.rows()).to_contain_text([f"GET /v1/payments/{payment['id']}", "POST /v1/payments"])
    expect(tab.rows().last).to_contain_text("201 (new)")
    assert tab.kept()


def test_refused_ones_show_the_words_and_the_details_of_the_refusal(tab: Tab, api: Sandbox) -> None:
    reply = api.create(order(order_id="", receive__amount="1.5"))
    error = reply.json()["error"]
    row = tab.open("/requests").rows().first
    expect(row).to_contain_text(f"{reply.status_code} {error['code']}")
    expect(row).to_contain_text(error["message"])
    expect(row).to_contain_text(reply.headers["x-request-id"])
    assert len(error["details"]) == 2
    for detail in error["details"]:
        expect(row).to_contain_text(f"{detail['field']}: {detail['message']}")


def test_what_became_of_an_idempotency_key_is_shown(tab: Tab, api: Sandbox) -> None:
    for order_id in ("order-1", "order-1", "order-2"):
        api.create(order(order_id=order_id), key="the-same-key")
    tab.open("/requests")
    expect(tab.rows()).to_contain_text(["(conflict)", "201 (replayed)", "201 (new)"])


def test_fault_order_and_shown_status_of_a_request_can_be_seen(tab: Tab, api: Sandbox) -> None:
    payment = api.created("happy_path", order_id="order-1")
    api.move(payment, to="payment_detected")
    path = f"/v1/payments/{payment['id']}"
    tab.open("/requests")
    for fault, reply in (
        ("delay=1", "200 fault: delay=1 payment detected"),
        ("status=502; after", "502 injected_fault fault: status=502; after"),
        ("truncate=10", "200 fault: truncate=10"),
        ("drop", "no reply fault: drop"),
    ):
        with contextlib.suppress(httpx.RemoteProtocolError):
            api.get(path, headers={"X-Mock-Fault": fault})
        newest = tab.rows().first.get_by_role("cell")
        expect(newest.nth(2)).to_contain_text(reply, use_inner_text=True)
        expect(newest.nth(2).locator(".badge")).to_have_count(1 if "detected" in reply else 0)
        expect(newest.nth(1)).to_contain_text("Order order-1")


@pytest.mark.parametrize("fault", ["status=503", "drop", "truncate=5", "delay=1"])
def test_errors_and_faults_can_be_seen_alone(tab: Tab, api: Sandbox, fault: str) -> None:
    api.created(order_id="order-1")
    with contextlib.suppress(httpx.RemoteProtocolError):
        api.get("/v1/chains", headers={"X-Mock-Fault": fault})
    tab.open("/requests")
    expect(tab.rows()).to_have_count(2)
    tab.page.get_by_label("Only errors and faults").check()
    expect(tab.rows()).to_have_count(1)
    expect(tab.rows()).to_contain_text([f"fault: {fault}"])
    api.get("/v1/payments/nope")
    expect(tab.rows()).to_contain_text(["404 payment_not_found", "/v1/chains"])
    api.created(order_id="order-2")
    tab.page.get_by_label("Only errors and faults").uncheck()
    expect(tab.rows()).to_have_count(4)


def test_journal_can_be_cleared(tab: Tab, api: Sandbox) -> None:
    api.created(order_id="order-1")
    tab.open("/requests")
    expect(tab.rows()).to_have_count(1)
    tab.button("Clear the journal").click()
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()
    assert api.get("/_mock/requests").json()["data"] == []
    assert len(api.payments()) == 1


def test_requests_are_copied_as_curl_and_say_where_their_body_comes_from(tab: Tab, api: Sandbox) -> None:
    asked = [("GET", "/v1/chains"), ("POST", "/v1/payments"), ("DELETE", "/v1/payments"), ("GET", "/v1/it's")]
    for method, path in reversed(asked):
        api.request(method, path)
    tab.open("/requests")
    expect(tab.rows()).to_have_count(len(asked))
    for row, (method, path) in zip(tab.rows().all(), asked, strict=True):
        row.get_by_role("button").click()
        expect(row.get_by_role("button")).to_have_text("Copied")
        command = tab.copied()
        address = tab.origin + path.replace("'", "%27")
        assert command.startswith(f"curl -sS -X {method} '{address}'")
        assert f'-H "Authorization: Bearer {api.api_key}"' in command  # of open mode: no secret
        assert command.count("'") % 2 == 0
        assert ("-d @body.json" in command) == (method == "POST")
        expect(row.get_by_text("its body: body.json")).to_be_visible(visible=method == "POST")
