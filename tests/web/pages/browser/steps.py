"""What a person does with the pages."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from tests.support.browser import Visit
from tests.support.contract import Json

TIMES = "\N{MULTIPLICATION SIGN}"

_NOTE = re.compile(r"Failed to load resource: the server responded with a status of (\d+)")
_UNCHANGED = "unchanged"
_HIDE = """hidden => {
    Object.defineProperty(document, "hidden", { value: hidden, configurable: true });
    document.dispatchEvent(new Event("visibilitychange"));
}"""


def visible(text: str) -> str:
    """A text of an application as the pages show it: what would reverse it is named."""
    return re.sub(
        "[\u061c\u200e\u200f\u202a-\u202e\u2066-\u2069]", lambda match: f"U+{ord(match[0]):04X}", text
    )


class Tab(Visit):
    """A tab with a page of paymock."""

    def __init__(self, page: Page, origin: str, api_key: str | None = None) -> None:
        super().__init__(page, origin)
        self.stopped = False
        self.headline = page.get_by_role("heading", level=1)
        self.live = page.locator("#live")
        self.connection = page.locator("#connection")
        """What the page says of a lost connection."""
        self.pace = page.locator("#speed")
        self.problem = page.locator("#problem")
        self.count = page.locator("#count")
        """How many payments the list has."""
        self.status = page.locator("#head .badge").first
        """That of the payment that the page is about."""
        self.picture = page.locator("#picture svg")
        if api_key is not None:
            self.use_key(api_key)

    def use_key(self, api_key: str) -> "Tab":
        """From now on, every page finds this key in the tab, as if it had been typed before."""
        self.page.add_init_script(
            f"if (location.protocol === 'http:') sessionStorage.setItem('paymock.key', '{api_key}')"
        )
        return self

    def open(self, path: str = "/") -> "Tab":
        """Goes there, and waits until it is live, if it is a page of the dashboard."""
        self.page.goto(self.origin + path)
        if not path.startswith("/checkout/"):
            expect(self.live).to_have_text("Live")
        return self

    def stop_time(self) -> None:
        """From here on, time passes in the page when `pass_time` says so. Before the page is opened."""
        self.page.clock.install(time=0)
        self.page.clock.pause_at(1000)
        self.stopped = True

    def pass_time(self, seconds: float) -> None:
        """Time passes in the page, not at the server, whose clock stands still anyway."""
        self.page.clock.run_for(round(seconds * 1000))

    def resize(self, width: int, height: int = 800) -> None:
        """Gives the window another size, for which a timeline is drawn anew."""
        self.page.set_viewport_size({"width": width, "height": height})
        if self.page.locator("#content:not([inert]) #picture svg").count():
            room = self.page.locator("#picture").evaluate("picture => picture.clientWidth")
            expect(self.picture).to_have_attribute("width", str(room))

    def hide(self, *, hidden: bool = True) -> None:
        """Tells the page that it can no longer be seen, as when another tab comes to the front."""
        self.page.evaluate(_HIDE, hidden)

    def complaints(self) -> list[str]:
        if self.stopped:
            self.page.clock.resume()
        return super().complaints()

    def forgive(self, *statuses: str) -> None:
        """Takes out what the browser itself notes of replies with these statuses, which did come."""
        before = self.complaints()
        noted = {text: match[1] for text in before if (match := _NOTE.match(text))}
        assert {*noted.values()} == {*statuses}
        self._complaints = [text for text in before if text not in noted]

    def forgive_lost_connections(self) -> None:
        """Takes out what the browser itself notes of a server that went away, which one did."""
        before = self.complaints()
        self._complaints = [text for text in before if "Failed to load resource: net::ERR_" not in text]
        assert len(self._complaints) < len(before)

    def leave(self) -> None:
        """Closes it. It has not complained, not asked another server for anything, not opened a dialog."""
        if not self.page.is_closed():
            found = [*self.complaints(), *self.foreign(), *self.dialogs]
            self.page.close()
            if found:
                pytest.fail(f"the page is not as quiet as it should be: {found}")

    def keep(self) -> None:
        """Marks the document: `kept` says whether it is still the same one."""
        self.page.evaluate(f"window.paymockTest = '{_UNCHANGED}'")

    def kept(self) -> bool:
        return bool(self.page.evaluate("window.paymockTest") == _UNCHANGED)

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def run(self, speed: int) -> None:
        """Presses the button of this speed."""
        self.button(f"{TIMES}{speed}" if speed else "Freeze").click()
        expect(self.pace).to_have_text(f"running {TIMES}{speed}" if speed else "frozen")

    def rows(self) -> Locator:
        return self.page.locator("#list tbody tr, #requests tbody tr, #findings tbody tr")

    def advance(self, seconds: float) -> None:
        """Advances the sandbox by the form in the header."""
        self.page.get_by_label("Advance the sandbox by seconds").fill(f"{seconds}")
        self.button("Advance sandbox").click()

    def rules(self) -> Locator:
        """The rows of the fault rules."""
        return self.page.locator("#rules tbody tr")

    def orders(self) -> Locator:
        """The links of the list of payments, one each."""
        return self.page.locator("#list tbody a")

    def announced(self, text: str) -> None:
        """Waits until those who cannot see the page are told so."""
        expect(self.page.locator("#announcement")).to_have_text(text)

    def copied(self) -> str:
        """What is on the clipboard."""
        return str(self.page.evaluate("navigator.clipboard.readText()"))

    def fits(self) -> bool:
        """Whether nothing needs sideways scrolling."""
        return bool(self.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"))


def payment_page(tab: Tab, payment: Json) -> Tab:
    """The page of the payment, with the payment in it."""
    tab.open(f"/payments/{payment['id']}")
    expect(tab.headline).to_have_text(payment["order_id"])
    return tab


def checkout_page(tab: Tab, payment: Json) -> Tab:
    """The checkout of the payment, following it."""
    with tab.page.expect_response("**/events"):
        tab.open(f"/checkout/{payment['id']}")
    return tab


def press(tab: Tab, target: Locator, key: str = "Enter", most: int = 40) -> None:
    """Goes to the target with the Tab key, sees that it has the focus, and presses a key."""
    tab.tab_to(target, most=most)
    outline = target.evaluate(
        "node => getComputedStyle(node).outlineStyle + getComputedStyle(node).outlineWidth"
    )
    assert outline == "solid3px"
    if key:
        tab.page.keyboard.press(key)
