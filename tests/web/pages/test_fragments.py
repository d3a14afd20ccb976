import contextlib
import json
import re
import shlex
from collections.abc import Iterator
from html import unescape
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.payments.views import MAX_DEPOSITS
from paymock.rules.amounts import to_tokens
from paymock.rules.scenarios import SCENARIOS
from paymock.web.pages.fragments import MIN_WIDTH, json_lines
from tests.support.client import DUE, HALF, error_of, order
from tests.support.contract import Json
from tests.support.specification import COURSES
from tests.web.pages.sandbox import Sandbox, plain

JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


def drawn(api: Sandbox, payment: Json, width: int = 640) -> ET.Element:
    html = api.fragment(f"payments/{payment['id']}?width={width}")
    [picture] = re.findall(r'<div id="picture"[^>]*>(<svg.*?</svg>)', html, re.DOTALL)
    return ET.fromstring(picture)  # noqa: S314 - our own


def number(element: ET.Element, name: str) -> float:
    return float(element.attrib[name])


def of_class(picture: ET.Element, tag: str, *names: str) -> list[ET.Element]:
    return [one for one in picture.iter(tag) if {*names} <= {*one.attrib.get("class", "").split()}]


def texts(elements: Iterator[ET.Element] | list[ET.Element]) -> list[str]:
    return [element.text or "" for element in elements]


def buttons(api: Sandbox, payment: Json) -> dict[str, tuple[str, Any, str]]:
    """What the page of a payment offers, by name: the call, its body, and why it is impossible, if so."""
    call = 'data-call="POST (.*?)" data-body="(.*?)"(?: data-why-not="(.*?)" aria-disabled="true")?>(.*?)<'
    found = re.findall(call, api.fragment(f"payments/{payment['id']}"))
    return {name: (path, json.loads(unescape(body)), why) for path, body, why, name in found}


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("seconds", [0, 600])
def test_labels_are_apart_and_bars_follow_one_another(api: Sandbox, scenario: str, seconds: int) -> None:
    payment = api.created(scenario)
    api.move(payment, seconds=seconds or 0.001)
    for width in (MIN_WIDTH, 320, 640, 1400):
        picture = drawn(api, payment, width)
        boxes = [
            (number(one, "y"), number(one, "x"), number(one, "x") + len(one.text or "") * 6.6)
            for one in of_class(picture, "text", "label")
        ]
        assert max(right for _, _, right in boxes) <= width
        for (y, _, right), (other_y, left, _) in pairwise(sorted(boxes)):
            assert right < left or y != other_y, width
        for line in of_class(picture, "line", "label"):
            at, bottom = number(line, "x1"), number(line, "y2")
            assert [box for box in boxes if box[0] < bottom - 1 and box[1] < at < box[2]] == [], width
        bars = [bar for bar in of_class(picture, "rect", "future") if bar.get("y") == "26"]
        for bar, following in pairwise(bars):
            end = number(bar, "x") + number(bar, "width")
            assert end == pytest.approx(number(following, "x"), abs=0.02)
        assert bool(of_class(picture, "line", "now")) is not bool(seconds)


class TestTimeline:
    def test_is_a_picture_and_a_table_that_show_where_the_application_read_it(self, api: Sandbox) -> None:
        payment = api.created("happy_path")
        api.payment(payment["id"])
        api.advance(6)
        for fault in ("status=503", None, "delay=1"):  # a late reply is read, too
            headers = {"X-Mock-Fault": fault} if fault else {}
            api.get(f"/v1/payments/{payment['id']}", headers=headers)
        api.advance(3)
        picture = drawn(api, payment)
        reads = "Your application: 3 reads, 1 failure"
        shown = {"Payment window: closes at 30 s", "Deposit 1: to be finalized", reads}
        assert shown <= {*texts(picture.iter("text"))}
        statuses = [status for _, status in COURSES["happy_path"]]
        assert texts(of_class(picture, "text", "label")) == statuses
        assert len(of_class(picture, "text", "label", "ahead")) == 4
        assert texts(of_class(picture, "text", "confirmations")) == ["0", "4", "8", "12", "16"]
        names = (["read"], ["tick"], ["tick", "future"])
        assert [len(of_class(picture, "circle", *name)) for name in names] == [3, 5, 2]
        [cross] = of_class(picture, "path", "cross")
        assert "".join(cross.itertext()).startswith("2 reads and 1 failure of the application while payment_")
        assert picture.attrib["aria-label"] == (
            "payment_detected at 9 s; next: Confirmations 12/16, confirming, at 11 s. "
            "All steps are in the table below."
        )
        assert api.rows(f"payments/{payment['id']}")[:9:2] == [
            "0 s Created awaiting_payment 1 read past",
            "7 s Confirmations 4/16, confirming payment_detected - past",
            "11 s Confirmations 12/16, confirming payment_detected - to come",
            "25 s settlement_pending - to come",
            "45 s completed - to come",
        ]

    def test_does_not_take_the_newest_requests_for_all(self, api: Sandbox) -> None:
        payment = api.created("happy_path")
        for _ in range(201):
            api.payment(payment["id"])
        assert "Your application: at least 200 reads" in texts(drawn(api, payment).iter("text"))

    def test_shows_a_rejection(self, api: Sandbox) -> None:
        payment = api.created("asset_mismatch")
        assert "Deposit 1: to be rejected" in texts(drawn(api, payment).iter("text"))
        assert len(of_class(drawn(api, payment), "path", "cross")) == 1
        api.move(payment, to="end")
        assert {"Deposit 1: rejected", "ended at 7 s"} <= {*texts(drawn(api, payment).iter("text"))}


def test_funding_is_told_in_numbers_and_drawn(api: Sandbox) -> None:
    names = ("Due", "Pending", "Finalized", "Missing", "Excess")
    for deposit, seconds, raw, bars in (
        (0, 1, (0, 0, DUE, 0), []),
        (HALF, 1, (HALF, 0, HALF, 0), [("50.0", "pending")]),
        (HALF, 8, (0, HALF, HALF, 0), [("50.0", "final")]),
        (DUE * 2, 8, (0, DUE * 2, 0, DUE), [("100.0", "final"), ("50.0", "excess")]),
    ):
        payment = api.created("no_payment_expired")
        if deposit:
            api.deposit(payment, deposit)
        api.move(payment, seconds=seconds)
        html = api.fragment(f"payments/{payment['id']}")
        for name, amount in zip(names, (DUE, *raw), strict=True):
            assert f"{name} {to_tokens(amount, 18)} USDT {amount} raw units" in plain(html)
        assert re.findall(r'width="([\d.]+)" height="6" class="(.*?)"', html) == [*bars, ("100", "axis")]


class TestJson:
    @given(JSON, JSON)
    def test_is_that_of_the_api_with_marks_where_it_differs(self, value: Any, before: Any) -> None:
        lines = "\n".join(line for line, _ in json_lines(value, before))
        assert lines == json.dumps(value, indent=2, ensure_ascii=False)
        assert not any(differs for _, differs in json_lines(value, value))
        assert all(differs for line, differs in json_lines({"a": value}, {}) if line not in "{}")

    def test_is_marked_at_the_lines_that_the_last_step_changed(self, api: Sandbox) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(2):
            api.deposit(payment, HALF)
            api.move(payment, seconds=2)
        html = api.fragment(f"payments/{payment['id']}")
        told = (
            "deposit 1 confirmations 4 → 8 · deposit 2 confirmations 0 → 4 · deposit 2 pending → confirming"
        )
        assert told in plain(html)
        marked = re.findall('<span class="new">(.*?)</span>', html)
        assert [re.sub('[",]', "", unescape(line)).strip() for line in marked] == [
            "updated_at: 2030-01-31T12:00:04.000Z",
            "confirmations: 8",
            "status: confirming",  # it only looks like that of the other deposit, which was there before
            "confirmations: 4",
        ]

    def test_stands_below_a_line_that_says_what_changed(self, api: Sandbox) -> None:
        for scenario, to, changes in (
            ("happy_path", 0.001, "Nothing has changed since it was created."),
            ("happy_path", 5, "awaiting_payment → payment_detected · deposit observed: 1.01 USDT"),
            ("happy_path", 45, "settlement_submitted → completed"),
            ("late_payment", 43, "confirmations 12 → 16 · deposit confirming → finalized"),
            ("asset_mismatch", 7, "payment_detected → manual_review · deposit pending → rejected"),
        ):
            payment = api.created(scenario)
            path = f"payments/{payment['id']}"
            ahead = plain(api.fragment(f"{path}?at={to}"))  # moves nothing
            assert f" As read at {to} s. {changes.replace('has', 'had')} {{" in ahead
            api.move(payment, seconds=to)
            assert f" {changes} {{" in plain(api.fragment(path))


class TestControls:
    def test_make_deposits(self, api: Sandbox) -> None:
        for before, button, amount, asset, status in (
            (0, "Pay", DUE, "USDT", "completed"),
            (HALF - 1, "Pay", HALF + 1, "USDT", "completed"),
            (0, "Half", HALF, "USDT", "underpaid_expired"),
            (0, "Too much", DUE + DUE // 10, "USDT", "overpaid_review"),
            (0, "Wrong asset", DUE, "USDC", "manual_review"),
        ):
            payment = api.created("no_payment_expired")
            if before:
                api.deposit(payment, before)
            for name in (button, "To the end"):
                path, body, _ = buttons(api, payment)[name]
                assert api.post(path, json=body).status_code == 200
            shown = api.payment(payment["id"])
            deposit = shown["attempts"][0]["deposits"][-1]
            assert (deposit["amount"], deposit["asset"], shown["status"]) == (str(amount), asset, status)

    def test_bring_the_own_transfer_forward_and_say_what_is_impossible(self, api: Sandbox) -> None:
        payment = api.created("happy_path")
        own = "happy_path sends its own transfer at 5 s. Pay makes it arrive now; other deposits come on top."
        paid, over = "Pay: the whole amount has arrived.", "Next step: no changes remain."
        for reasons, press in (({own}, "Pay"), ({paid}, "To the end"), ({paid, over}, "Half")):
            pages = [api.fragment(f"{name}/{payment['id']}") for name in ("checkout", "payments")]
            at_checkout, shown = ({*re.findall("<li>(.*?)</li>", page)} for page in pages)
            assert at_checkout == shown - {"To the end: no changes remain."} == reasons
            path, body, _ = buttons(api, payment)[press]
            assert api.post(path, json=body).status_code == 200
        assert api.payment(payment["id"])["status"] == "completed"

    def test_fail_the_next_read(self, api: Sandbox) -> None:
        payment, other = api.created(), api.created()
        for name, pending in (("503 error", "503 error"), ("Reply lost", "503 error, then Reply lost")):
            path, rule, _ = buttons(api, payment)[name]
            assert api.post(path, json=rule).status_code == 201
            assert f"Next read: {pending}<" in api.fragment(f"payments/{payment['id']}")
        assert [api.get(f"/v1/payments/{one['id']}").status_code for one in (other, payment)] == [200, 503]
        assert "Next read: Reply lost<" in api.fragment(f"payments/{payment['id']}")

    @pytest.mark.ci
    def test_make_no_more_deposits_than_a_payment_takes(self, api: Sandbox) -> None:
        payment = api.created("no_payment_expired")
        for _ in range(MAX_DEPOSITS):
            api.deposit(payment, 1)
        reasons = [why for _, _, why in buttons(api, payment).values() if why]
        assert reasons == ["a payment takes no more than 100 deposits"] * 4


class TestRequests:
    def test_that_are_refused_show_the_words_and_the_details_of_the_refusal(self, api: Sandbox) -> None:
        reply = api.create(order(order_id="", receive__amount="1.5"))
        error = reply.json()["error"]
        details = " ".join(f"{detail['field']}: {detail['message']}" for detail in error["details"])
        [row] = api.rows("requests")
        assert reply.headers["x-request-id"] in row
        assert f"422 validation_failed {details} Copy as curl needs body.json" in row
        api.get("/v1/payments/nope")
        assert "404 payment_not_found This API key has no payment with that id." in api.rows("requests")[0]

    def test_that_are_equal_are_one_row_at_the_time_of_the_payment(self, api: Sandbox) -> None:
        payment = api.created("happy_path")
        for seconds in (8.25, 1, 2):
            api.advance(seconds)
            api.payment(payment["id"])
        api.move(payment, to="settlement_pending")
        api.payment(payment["id"])
        api.get(f"/v1/payments/{payment['id']}", headers={"X-Mock-Fault": "status=503"})  # shows no state
        rows = [re.sub("(last: )?req_[^ ]* ", "", row) for row in api.rows(f"payments/{payment['id']}")[-4:]]
        assert rows.pop(0).startswith("at 25 s")
        path = f"\N{MULTIPLICATION SIGN} GET /v1/payments/{payment['id'][:10]}…{payment['id'][-6:]}"
        assert rows == [
            f"at 25 s {path[2:]} 200 settlement_pending Copy as curl",
            f"at 8.2 to 11.2 s 3 {path} 200 payment_detected Copy as curl",
            "at 0 s POST /v1/payments 201 (new, key 1) awaiting_payment Copy as curl",
        ]
        assert f"12:00:08 to 12:00:11 3 {path} Order order-1001" in api.rows("requests")[2]

    def test_show_what_became_of_an_idempotency_key(self, api: Sandbox) -> None:
        for order_id, expected in (
            ("1", "201 (new, key 1)"),
            ("1", "201 (replayed, key 1)"),
            ("2", "(conflict, key 1)"),
        ):
            api.create(order(order_id=order_id), key="the-same-key")
            assert expected in api.rows("requests")[0]

    def test_show_their_order_fault_and_status(self, api: Sandbox) -> None:
        payment = api.created("happy_path", order_id="order-1")
        api.move(payment, to="payment_detected")
        for fault, reply in (
            ("delay=1", "200 fault: delay=1 payment_detected Copy"),
            ("status=502; after", "502 injected_fault fault: status=502; after An injected fault"),
            ("truncate=10", "200 fault: truncate=10 Copy"),
            ("drop", "no reply fault: drop Copy"),
        ):
            with contextlib.suppress(httpx.RemoteProtocolError):
                api.get(f"/v1/payments/{payment['id']}", headers={"X-Mock-Fault": fault})
            newest = api.rows("requests")[0]
            assert "Order order-1" in newest
            assert reply in newest
        assert len(api.rows("requests?failed=true")) == 4

    def test_are_filtered_and_tell_all_that_the_journal_knows(self, api: Sandbox) -> None:
        payment = api.created(order_id="a/b&c=1")
        html, [entry] = api.fragment("requests"), api.get("/_mock/requests").json()["data"]
        for link in ("/?search=a/b%26c%3D1", f"/payments/{payment['id']}"):
            assert f'href="{link}"' in html
        assert f">real {entry['at'][11:23]}</small>" in html
        assert f">{entry['duration_ms']:.1f} ms</span>" in html
        known = dict(re.findall("<dt>(.*?)</dt><dd><code>(.*?)</code></dd>", unescape(html)))
        assert known == {name: str(one) for name, one in entry.items() if one not in (None, [])}
        for number in range(201):  # of which 200 are shown; a filter looks at the whole journal
            api.get(f"/v1/payments/{number}")
        for query, found in (("order=b%26c", 1), ("order=B", 0), ("status=201", 1), ("status=4", 200)):
            assert len(api.rows(f"requests?{query}")) == found, query
        assert "POST /v1/payments" in api.rows("requests?operation=createPayment")[0]

    def test_are_commands_of_curl_that_say_where_their_body_comes_from(self, api: Sandbox) -> None:
        asked = [("POST", "/v1/payments"), ("DELETE", "/v1/payments")]
        asked += [("GET", f"/v1/{path}") for path in ("it's", "$(id)", "'$(id)'", "a;id", "~&id&", "{key}")]
        for method, path in asked:
            api.request(method, path)
        html = api.fragment("requests")
        commands = [unescape(command) for command in re.findall('data-command="(.*?)"', html, re.DOTALL)]
        for command, row, (method, path) in zip(commands, api.rows("requests"), reversed(asked), strict=True):
            words = ["curl", "-sS", "-X", method, f"{{origin}}{path}", "-H", "Authorization: Bearer {key}"]
            assert [word for word in shlex.split(command) if word != "\n"][: len(words)] == words
            assert ("-d @body.json" in command) == ("needs body.json" in row) == (method == "POST")
        api.request("G&TOUCH$IFS'X'&", "/v1/chains")  # a method that is none: no command
        assert api.rows("requests")[0].endswith("This path supports GET, HEAD, OPTIONS.")


def test_list_tells_of_each_payment_what_it_is_and_how_much_is_due(api: Sandbox) -> None:
    ahead = api.created(order_id="order-1")
    api.move(ahead, seconds=7)
    api.created("no_payment_expired", order_id="order-\u202e1001")
    newer, older = api.rows("payments")
    assert newer == (
        "order- U+202E 1001 no_payment_expired expired in awaiting_payment "
        "1.01 USDT BNB Smart Chain 2030-01-31 12:00:00"
    )
    assert older == "order-1 happy_path completed in payment_detected 1.01 USDT BNB Smart Chain 12:00:00 +7 s"
    api.move(ahead, to="end")
    assert "happy_path after 45 s completed" in api.rows("payments")[1]
    for order_id, shown in (
        ("o" * 20, "o" * 20),
        ("0f8fad5b-d9cb-469f-a165-70867728950e", "0f8fad5b-d…28950e"),
    ):
        api.created(order_id=order_id)
        assert api.rows("payments")[0].startswith(f"{shown} happy_path")
        assert f'title="{order_id}, pay_' in api.fragment("payments")
    for title in (f"order-1, {ahead['id']}", "1.01 USDT: 1010000000000000000 raw units"):
        assert f'title="{title}"' in api.fragment("payments")


def test_counts_of_the_list_are_those_of_what_matches(api: Sandbox, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("paymock.app.control.MAX_COUNTED", 4)
    for number in range(6):
        payment = api.created(order_id=f"order-{number}")
        api.move(payment, to="completed" if number < 2 else "payment_detected")
    for query, counts in (
        ("", "all 6 payment_detected 4+"),
        ("?search=er-1", "all 1 completed 1"),
        ("?status=completed", "all 6 payment_detected 4+ completed 2+"),
    ):
        chips = re.findall("<label.*?</label>", api.fragment(f"payments{query}"))
        assert " ".join(map(plain, chips)) == counts


def test_bars_of_the_list_have_one_axis_and_a_span_for_each_view(api: Sandbox) -> None:
    for scenario in ("late_payment", "happy_path"):
        api.created(scenario)
    html = api.fragment("payments")
    spans = re.findall('<rect class="(.*?)".*? data-from="(.*?)" data-to="(.*?)"', html)
    happy = [("pay", "0", "5"), ("detected", "5", "13"), ("received", "13", "45"), ("complete", "45", "45")]
    assert spans == [*happy, ("pay", "0", "30"), ("expired", "30", "35"), ("review", "35", "35")]
    assert re.findall('viewBox="0 0 (.*?) 6"', html) == ["45", "45"]


def test_fault_rules_count_what_they_saw_and_did(api: Sandbox) -> None:
    path = f"/v1/payments/{api.created()['id']}"
    api.post("/_mock/faults", json={"fault": "status=503", "skip": 1, "times": None})
    api.post("/_mock/faults", json={"fault": "status=500", "operation": "getPayment"})
    assert [api.get(path).status_code for _ in range(3)] == [500, 503, 503]
    assert api.rows("faults") == [
        "status=503 503 error every operation 2 applied, until deleted 3 seen, first 1 skipped Delete",
        "status=500 getPayment 1 of 1 applied (used up) 3 seen Delete",
    ]


def test_next_payments_are_told_with_the_scenario_that_they_get(api: Sandbox) -> None:
    for override in (
        {"scenario": "happy_path", "times": None, "order_id": "order-1"},
        {"scenario": "no_payment_expired"},
        {"scenario": "late_payment", "times": 4, "metadata": {"test": "A", "n": 1}},
        {"scenario": "manual_review", "times": None},
    ):
        assert api.post("/_mock/next", json=override).status_code == 200
    assert [plain(row) for row in re.findall("<li>(.*?)</li>", api.fragment("faults"))] == [
        "1 payment: no_payment_expired",
        "4 payments with test = A and n = 1: late_payment",
        "All further payments of order order-1 : happy_path",
        "All further payments: manual_review",
    ]


def test_fragment_is_private_and_takes_no_unknown_parameters(api: Sandbox) -> None:
    payment = api.created(order_id="secret-order")
    for path in ("payments", "faults", "requests", f"payments/{payment['id']}", f"checkout/{payment['id']}"):
        url = api.base_url.join(f"/fragments/{path}")
        assert error_of(httpx.get(url)) == (401, "unauthenticated")
        stranger = httpx.get(url, headers={"Authorization": "Bearer mk_test_stranger"})
        assert not re.search("secret-order", stranger.text)
        reply = api.get(url)
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]
        assert error_of(api.get(url, params={"color": "red"})) == (400, "invalid_query")


def test_picture_of_an_unknown_payment_or_width_is_refused_and_no_width_is_absurd(api: Sandbox) -> None:
    assert error_of(api.get("/fragments/payments/nope")) == (404, "payment_not_found")
    payment = api.created()
    assert error_of(api.get(f"/fragments/payments/{payment['id']}?width=100001")) == (400, "invalid_query")
    assert [drawn(api, payment, asked).get("width") for asked in (0, 100_000)] == ["240", "4000"]
