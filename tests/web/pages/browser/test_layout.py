"""Every page in every state, held against the rules of axe-core in both color schemes, and against facts of
the layout in windows of many widths: nothing overlaps, nothing is cut, and no word is broken.
"""

import pytest

from tests.support.browser import PATIENCE_MS, violations
from tests.web.pages.browser.conftest import NewTab
from tests.web.pages.browser.states import STATES
from tests.web.pages.browser.steps import Tab
from tests.web.pages.sandbox import Sandbox

WIDTHS = (1600, 1440, 768, 640, 375, 320)
"""640: as one of 1280 at 200 %."""
LOOK_MS = 250
OF_EACH_PAGE = {
    *("key form", "full list", "connection lost", "requests", "faults"),
    *("payment, overpaid_review", "checkout, awaiting_payment", "report of verify"),
}
"""The states that are tested on each submission; the others are tested at night."""

MOVING = """() => document.getAnimations().length + [...document.querySelectorAll("*")].filter(node => {
    const style = getComputedStyle(node);
    return style.animationName !== "none" || style.transitionDuration !== "0s";
}).length"""

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
    return [f"{width}: {flaw}" for flaw in [*found, *([] if tab.fits() else ["needs sideways scrolling"])]]


@pytest.mark.parametrize(
    "state", [pytest.param(name, marks=[pytest.mark.nightly] * (name not in OF_EACH_PAGE)) for name in STATES]
)
def test_page_can_be_used_by_everybody_in_any_window(new_tab: NewTab, api: Sandbox, state: str) -> None:
    tab = new_tab()
    STATES[state](tab, api)
    assert violations(tab.page) == []
    tab.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert violations(tab.page, "color-contrast") == []
    assert tab.page.evaluate(MOVING) == 0
    assert [flaw for width in WIDTHS for flaw in flaws(tab, width)] == []
