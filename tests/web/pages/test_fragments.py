"""The parts of the pages that the server renders: what they draw and say, without a browser."""

import json
import re
from itertools import pairwise
from typing import Any
from xml.etree import ElementTree as ET

import httpx
import msgspec
import pytest
from hypothesis import given
from hypothesis import strategies as st

from paymock.rules.scenarios import SCENARIOS
from paymock.schemas.control import PaymentDetail
from paymock.web.http.templates import count, duration
from paymock.web.pages.fragments import MIN_WIDTH, json_lines
from paymock.web.pages.timeline_picture import read_counts, timeline_picture
from tests.support.client import error_of
from tests.web.pages.steps import Sandbox, Tab

WIDTHS = (MIN_WIDTH, 320, 640, 1400)
JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
)


@pytest.fixture
def details(api: Sandbox) -> list[PaymentDetail]:
    """A payment of each scenario, at its begin and at its end."""
    found = []
    for scenario in SCENARIOS:
        payment = api.created(scenario)
        for move in (False, True):
            if move:
                api.move(payment, to="end")
            reply = api.get(f"/_mock/payments/{payment['id']}")
            found.append(msgspec.json.decode(reply.content, type=PaymentDetail))
    return found


def picture_of(detail: PaymentDetail, width: int) -> ET.Element:
    seen = read_counts(detail.timeline, [])
    return ET.fromstring(timeline_picture(detail, seen, 0, width, all_seen=True))  # noqa: S314 - our own


def attribute(element: ET.Element, name: str) -> float:
    return float(element.attrib[name])


def test_labels_of_the_timeline_are_apart_in_the_picture_and_not_crossed(
    details: list[PaymentDetail],
) -> None:
    for detail in details:
        for width in WIDTHS:
            picture = picture_of(detail, width)
            labels = [one for one in picture.iter("text") if one.attrib.get("class", "").startswith("label")]
            boxes = {}
            for label in labels:
                left = attribute(label, "x")
                boxes[label] = (left, left + len(label.text or "") * 6.6)
                assert boxes[label][1] <= width, (detail.scenario, width, label.text)
            for one in labels:
                for other in labels:
                    if one is not other and attribute(one, "y") == attribute(other, "y"):
                        (left, right), (begin, end) = boxes[one], boxes[other]
                        assert right < begin or end < left, (detail.scenario, width, one.text, other.text)
            for line in picture.iter("line"):
                if line.attrib.get("class", "").startswith("label"):
                    at, bottom = attribute(line, "x1"), attribute(line, "y2")
                    for label in labels:
                        left, right = boxes[label]
                        is_above = attribute(label, "y") < bottom - 1
                        assert not (is_above and left < at < right), (detail.scenario, width, label.text)


def test_bars_of_the_statuses_follow_one_another_up_to_the_end(details: list[PaymentDetail]) -> None:
    for detail in details:
        picture = picture_of(detail, 640)
        solid = [
            bar for bar in picture.findall("g/rect") if "data-from" in bar.attrib and bar.attrib["y"] == "26"
        ]
        end = attribute(picture, "data-end")
        assert attribute(solid[0], "data-from") == 0
        assert attribute(solid[-1], "data-to") == end > detail.timeline[-1].offset_seconds
        for bar, following in pairwise(solid):
            assert bar.attrib["data-to"] == following.attrib["data-from"]


@given(JSON, JSON)
def test_json_is_that_of_the_api_line_by_line(value: Any, before: Any) -> None:
    lines = "\n".join(line for line, _ in json_lines(value, before))
    assert lines == json.dumps(value, indent=2, ensure_ascii=False)


@given(JSON)
def test_json_marks_nothing_that_was_there_and_everything_that_was_not(value: Any) -> None:
    assert not any(differs for _, differs in json_lines(value, value))
    assert all(differs for line, differs in json_lines({"a": value}, {}) if line not in "{}")


@pytest.mark.parametrize(
    "path",
    ["/fragments/payments", "/fragments/next-payment", "/fragments/requests", "/fragments/payments/{}"],
)
class TestFragment:
    def test_needs_the_key_of_its_sandbox(self, api: Sandbox, path: str) -> None:
        path = path.format(api.created(order_id="secret-order")["id"])
        assert error_of(httpx.get(api.base_url.join(path))) == (401, "unauthenticated")
        stranger = httpx.get(api.base_url.join(path), headers={"Authorization": "Bearer mk_test_stranger"})
        assert "secret-order" not in stranger.text

    def test_is_not_stored_and_loads_nothing_from_elsewhere(self, api: Sandbox, path: str) -> None:
        reply = api.get(path.format(api.created()["id"]))
        assert reply.headers["content-type"] == "text/html; charset=utf-8"
        assert reply.headers["cache-control"] == "no-store"
        assert "default-src 'none'" in reply.headers["content-security-policy"]

    def test_takes_no_parameters_that_it_does_not_know(self, api: Sandbox, path: str) -> None:
        reply = api.get(path.format(api.created()["id"]), params={"colour": "red"})
        assert error_of(reply) == (400, "invalid_query")

    def test_shows_text_of_an_application_as_text(self, api: Sandbox, path: str) -> None:
        payment = api.created(order_id="<b>order</b>", metadata={"<i>": "\"'><script>"})
        api.post("/_mock/faults", json={"fault": "drop", "order_id": "<b>order</b>"})
        html = api.get(path.format(payment["id"])).text
        assert not re.search("<b>|<i>|<script", html)


@pytest.mark.parametrize("width", ["0", "239", "4001", "wide", ""])
def test_picture_of_an_impossible_width_is_refused(api: Sandbox, width: str) -> None:
    reply = api.get(f"/fragments/payments/{api.created()['id']}", params={"width": width})
    assert error_of(reply) == (400, "invalid_query")


def test_unknown_payment_is_refused(api: Sandbox) -> None:
    assert error_of(api.get("/fragments/payments/nope")) == (404, "payment_not_found")


def test_server_and_scripts_write_durations_and_counts_alike(tab: Tab) -> None:
    seconds = [0, 0.04, 9.99, 10.5, 59.9, 60, 61.5, 3599.9, 3600, 3661, 86_399, 86_400, 90_061, 1e9]
    counts = [0, 1, 2, 999, 1000, 1_234_567]
    texts = tab.open().page.evaluate(
        """async ([seconds, counts]) => {
            const { duration, count } = await import("/assets/format.js");
            return [seconds.map(duration), counts.map(number => count(number, "read"))];
        }""",
        [seconds, counts],
    )
    assert texts == [[duration(one) for one in seconds], [count(one, "read") for one in counts]]
