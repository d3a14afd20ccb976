"""Every page in every state, held against the rules of axe-core in both color schemes, and against narrow and
wide windows.
"""

import pytest
from playwright.sync_api import expect

from tests.support.accessibility import violations
from tests.web.pages.conftest import NewTab
from tests.web.pages.states import STATES
from tests.web.pages.steps import Sandbox, Tab

WIDTHS = (320, 1600)
MOVING = """() => document.getAnimations().length + [...document.querySelectorAll("*")].filter(node => {
    const style = getComputedStyle(node);
    return style.animationName !== "none" || style.transitionDuration !== "0s";
}).length"""


@pytest.mark.parametrize("state", STATES)
def test_page_can_be_used_by_everybody_in_any_window(new_tab: NewTab, api: Sandbox, state: str) -> None:
    tab = new_tab()
    STATES[state](tab, api)
    assert violations(tab.page) == []
    tab.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert violations(tab.page, "color-contrast") == []
    assert tab.page.evaluate(MOVING) == 0
    for width in WIDTHS:
        tab.resize(width)
        tab.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert tab.fits(), width


def test_pressed_speed_stands_out_in_forced_colors(tab: Tab) -> None:
    tab.page.emulate_media(forced_colors="active")
    tab.open()
    colors = (
        tab.page.get_by_role("group", name="Speed")
        .get_by_role("button")
        .evaluate_all(
            "buttons => buttons.map(one => [one.ariaPressed, getComputedStyle(one).backgroundColor])"
        )
    )
    pressed = {color for state, color in colors if state == "true"}
    others = {color for state, color in colors if state == "false"}
    assert len(pressed) == len(others) == 1
    assert pressed != others


def test_running_clock_is_shown_less_often_to_those_who_want_less_motion(tab: Tab, api: Sandbox) -> None:
    tab.page.emulate_media(reduced_motion="reduce")
    tab.stop_time()
    api.speed(1)
    tab.open()
    now = tab.page.locator("#now")
    expect(now).to_have_text("2030-01-31 12:00:00 UTC")
    places = []
    for _ in range(10):
        tab.pass_time(0.2)
        places.append(now.inner_text())
    assert len({*places}) == 3
