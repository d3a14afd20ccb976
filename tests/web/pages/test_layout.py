"""Facts of the layout of every page in every state: nothing overlaps, nothing is cut, no word is broken, and
the time is in view.
"""

import pytest
from playwright.sync_api import expect

from paymock.rules.scenarios import SCENARIOS
from tests.support.browser import PATIENCE_MS
from tests.web.pages.conftest import NewTab
from tests.web.pages.states import STATES
from tests.web.pages.steps import Sandbox, Tab, payment_page

WIDTHS = (1440, 768, 640, 375)
"""640: as one of 1280 at 200 %."""
LOOK_MS = 250
OUTLINE = 3
"""How far the outline of a text may reach beyond the picture, which shows it."""

FLAWS = """() => {
    const flaws = [], texts = [];
    const within = document.querySelector("dialog[open]") ?? document.body;
    const walker = document.createTreeWalker(within, NodeFilter.SHOW_TEXT);
    const range = document.createRange();
    for (let node = walker.nextNode(); node; node = walker.nextNode()) {
        const parent = node.parentElement;
        if (!node.data.trim() || !parent.checkVisibility({ visibilityProperty: true })) continue;
        if (parent.closest(".unseen, .skip, noscript, option, pre")) continue;
        range.selectNodeContents(node);
        const shortened = getComputedStyle(parent).textOverflow === "ellipsis";
        const all = [...(shortened ? parent : range).getClientRects()];
        const rects = all.filter(({ width, height }) => width > 1 && height > 1);
        if (!rects.length) continue;
        const clamp = parent.closest(".clamp")?.getBoundingClientRect();
        for (const rect of rects) {
            if (clamp && rect.bottom > clamp.bottom + 1) continue;
            texts.push({ node, rect, words: node.data.trim() });
            if (rect.left < -1 || rect.right > innerWidth + 1) {
                if (!parent.closest(".scroll")) flaws.push(`cut by the window: ${node.data.trim()}`);
            }
        }
        if (parent.closest("code, bdi, .mono, .clamp")) continue;
        for (const { 0: word, index } of node.data.matchAll(/[A-Za-z]{2,}/g)) {
            range.setStart(node, index);
            range.setEnd(node, index + word.length);
            if (new Set([...range.getClientRects()].map(rect => Math.round(rect.top))).size > 1) {
                flaws.push(`broken: ${word} in ${parent.outerHTML}`);
            }
        }
    }
    for (const [number, one] of texts.entries()) {
        for (const other of texts.slice(number + 1)) {
            if (one.node === other.node) continue;
            const [a, b] = [one.rect, other.rect];
            const width = Math.min(a.right, b.right) - Math.max(a.left, b.left);
            const height = Math.min(a.bottom, b.bottom) - Math.max(a.top, b.top);
            // the boxes of two lines of a paragraph may touch, and those of fonts of different sizes more
            if (width > 1 && height > 5) flaws.push(`overlap: ${one.words} / ${other.words}`);
        }
    }
    for (const element of within.querySelectorAll("button, select, input, h1, h2, dd, td, .badge, svg")) {
        if (!element.checkVisibility() || element.closest(".unseen")) continue;
        const { left, right } = element.getBoundingClientRect();
        if ((left < -1 || right > innerWidth + 1) && !element.closest(".scroll, pre")) {
            flaws.push(`cut by the window: ${element.outerHTML.slice(0, 60)}`);
        }
        if (element.matches("button") && element.scrollWidth > element.clientWidth + 1) {
            flaws.push(`cut by itself: ${element.textContent}`);
        }
    }
    return flaws;
}"""
"""What is wrong with what can be seen: texts that overlap, leave the window, or are broken within a word."""


def flaws(tab: Tab, width: int) -> list[str]:
    """What is wrong with the page in a window of this width, and stays so: the timeline is drawn anew."""
    tab.resize(width)
    for _ in range(PATIENCE_MS // LOOK_MS):
        found: list[str] = tab.page.evaluate(FLAWS)
        if not found:
            break
        tab.page.wait_for_timeout(LOOK_MS)
    return [f"{width}: {flaw}" for flaw in found]


@pytest.mark.parametrize("state", STATES)
def test_nothing_overlaps_or_is_cut_or_broken(new_tab: NewTab, api: Sandbox, state: str) -> None:
    tab = new_tab()
    STATES[state](tab, api)
    assert [flaw for width in WIDTHS for flaw in flaws(tab, width)] == []


@pytest.mark.parametrize("scenario", SCENARIOS)
@pytest.mark.parametrize("ahead", [False, True])
def test_timeline_names_each_status_and_deposit_and_shows_the_time_at_every_width(
    tab: Tab, api: Sandbox, scenario: str, *, ahead: bool
) -> None:
    payment = api.created(scenario)
    api.payment(payment["id"])
    if ahead:
        api.move(payment, to="end")
    payment_page(tab, payment)
    detail = api.get(f"/_mock/payments/{payment['id']}").json()
    statuses = [*dict.fromkeys(entry["status"].replace("_", " ") for entry in detail["timeline"])]
    deposits = {entry["deposit"] for entry in detail["timeline"]} - {None}
    for width in (320, *WIDTHS):
        assert flaws(tab, width) == []
        for text in [*statuses, *(f"Deposit {number}" for number in deposits)]:
            expect(tab.picture.locator("text").filter(has_text=text).first).to_be_visible()
        picture = tab.picture.bounding_box()
        now = tab.picture.locator("line.now").bounding_box()
        caption = tab.picture.locator(".now-label").bounding_box()
        assert picture
        assert now
        assert caption
        for box in (now, caption):
            assert box["x"] > picture["x"] - OUTLINE
            assert box["x"] + box["width"] < picture["x"] + picture["width"] + OUTLINE
        assert 0 <= picture["x"] <= picture["x"] + picture["width"] <= width


def test_first_payment_is_in_view_on_a_phone(tab: Tab, api: Sandbox) -> None:
    api.created(order_id="order-1")
    tab.page.set_viewport_size({"width": 375, "height": 667})
    expect(tab.open().orders().first).to_be_in_viewport()


def test_what_changed_stays_in_view_beside_the_controls(tab: Tab, api: Sandbox) -> None:
    payment = api.created()
    for _ in range(20):
        api.payment(payment["id"])
    tab.page.set_viewport_size({"width": 1440, "height": 800})
    payment_page(tab, payment)
    expect(tab.button("Next step")).to_be_in_viewport()
    expect(tab.page.locator("#json")).to_be_in_viewport()
    api.advance(5)
    expect(tab.page.locator("#json .new").first).to_be_in_viewport()
