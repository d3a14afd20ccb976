"""What a person does with the pages."""

import re

import pytest
from playwright.sync_api import Locator, Page, expect

from paymock.web.pages.templating import static_path
from tests.support.browser import Visit
from tests.support.contract import Json

TIMES = "\N{MULTIPLICATION SIGN}"

_NOTE = re.compile("Failed to load resource: (?:the server responded with a status of )?(net::ERR|[0-9]+)")
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
        self.pace = page.locator("#speed")
        self.problem = page.locator("#problem")
        self.status = page.locator("#head .badge").first
        self.picture = page.locator("#picture > svg")
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

    def poll(self) -> None:
        """Lets the page, whose time is stopped, poll once more."""
        module = f"{static_path()}/polling.js"
        self.page.evaluate(f"import('{module}').then(({{ pollNow }}) => pollNow())")

    def resize(self, width: int, height: int = 800) -> None:
        """Gives the window another size, for which a timeline is drawn anew."""
        self.page.set_viewport_size({"width": width, "height": height})
        if self.page.locator("#content:not([inert]) #picture > svg").count():
            room = self.page.locator("#picture").evaluate("picture => picture.clientWidth")
            expect(self.picture).to_have_attribute("width", str(room))

    def hide(self, *, hidden: bool = True) -> None:
        """Tells the page that it can no longer be seen, as when another tab comes to the front."""
        self.page.evaluate(_HIDE, hidden)

    def lose(self, polled: str) -> None:
        """What the page, whose time is stopped, polls is refused twice, and then does not come."""
        self.page.route(polled, lambda _: None)
        self.page.route(
            polled, lambda route: route.abort(), times=2
        )  # the first time, it tries again at once
        self.poll()

    def complaints(self) -> list[str]:
        if self.stopped:
            self.page.clock.resume()
        return super().complaints()

    def forgive(self, *reasons: str) -> None:
        """Takes out what the browser itself notes of replies with these statuses, which did come, or of a
        server that went away (`net::ERR`), which one did.
        """
        before = self.complaints()
        noted = {text: match[1] for text in before if (match := _NOTE.match(text))}
        assert {*noted.values()} == {*reasons}
        self._complaints = [text for text in before if text not in noted]

    def leave(self) -> None:
        """Closes it. It has not complained, not asked another server for anything, not opened a dialog."""
        if not self.page.is_closed():
            found = [*self.complaints(), *self.foreign(), *self.dialogs]
            self.page.close()
            if found:
                pytest.fail(f"the page is not as quiet as it should be: {found}")

    def keep(self) -> None:
        """Marks the document: `kept` says whether it is still the same one."""
        self.page.evaluate("window.isKept = true")

    def kept(self) -> bool:
        return bool(self.page.evaluate("window.isKept"))

    def button(self, name: str) -> Locator:
        return self.page.get_by_role("button", name=name, exact=True)

    def run(self, speed: int) -> None:
        self.button(f"{TIMES}{speed}" if speed else "Freeze").click()
        expect(self.pace).to_have_text(f"running {TIMES}{speed}" if speed else "frozen")

    def rows(self) -> Locator:
        return self.page.locator(":is(#list, #requests, #rules) tbody tr")

    def orders(self) -> Locator:
        return self.page.locator("#list tbody a")

    def announced(self, text: str) -> None:
        """Waits until those who cannot see the page are told so."""
        expect(self.page.locator("#announcement")).to_have_text(text)

    def copied(self) -> str:
        return str(self.page.evaluate("navigator.clipboard.readText()"))

    def fits(self) -> bool:
        """Whether nothing needs sideways scrolling."""
        return bool(self.page.evaluate("document.scrollingElement.scrollWidth <= innerWidth"))


def checkout_page(tab: Tab, payment: Json) -> Tab:
    with tab.page.expect_response("**/checkout/*.json"):
        tab.open(f"/checkout/{payment['id']}")
    return tab


def press(tab: Tab, target: Locator, key: str = "Enter", most: int = 40) -> None:
    """Goes to the target with the Tab key, sees that it has the focus, and presses a key."""
    for _ in range(most):
        if target.evaluate("node => node === document.activeElement"):
            break
        tab.page.keyboard.press("Tab")
    expect(target).to_be_focused()
    outline = target.evaluate(
        "node => getComputedStyle(node).outlineStyle + getComputedStyle(node).outlineWidth"
    )
    assert outline == "solid3px"
    if key:
        tab.page.keyboard.press(key)
