"""Every page in every state, held against the rules of axe-core in both color schemes, and against narrow and
wide windows.
"""

from collections.abc import Callable

import pytest
from axe_playwright_python.sync_playwright import Axe  # type: ignore[import-untyped]
from playwright.sync_api import expect

from paymock.resources.checkout import VIEWS
from paymock.rules.scenarios import PaymentStatus
from tests.support.client import DUE, order
from tests.support.contract import Json
from tests.support.specification import COURSES
from tests.web.pages.conftest import NewTab
from tests.web.pages.steps import Sandbox, Tab, checkout_page

RULES = ("wcag2a", "wcag2aa", "wcag21a", "wcag21aa", "wcag22aa", "best-practice")
WIDTHS = (320, 1600)
LONG = "an-order-with-a-very-long-id-" * 4
MOVING = """() => document.getAnimations().length + [...document.querySelectorAll("*")].filter(node => {
    const style = getComputedStyle(node);
    return style.animationName !== "none" || style.transitionDuration !== "0s";
}).length"""

State = Callable[[Tab, Sandbox], None]


def paid(api: Sandbox, status: PaymentStatus) -> Json:
    """A payment with this status, in the first scenario that has it."""
    scenario = next(name for name, course in COURSES.items() if status in [entry[1] for entry in course])
    payment = api.created(scenario, order_id=LONG)
    if status is not PaymentStatus.AWAITING_PAYMENT:
        api.move(payment, to=status)
    return payment


def key_form(tab: Tab, api: Sandbox) -> None:
    tab.page.goto(tab.origin)
    expect(tab.page.get_by_label("API key")).to_be_focused()


def wrong_key(tab: Tab, api: Sandbox) -> None:
    tab.use_key("wrong").page.goto(tab.origin)
    expect(tab.problem).to_be_visible()
    tab.forgive("401")


def empty_list(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open()
    expect(tab.page.get_by_role("heading", name="No payments yet")).to_be_visible()


def full_list(tab: Tab, api: Sandbox) -> None:
    for status in [*PaymentStatus] * 3:
        paid(api, status)
    tab.use_key(api.api_key).open()
    expect(tab.orders()).to_have_count(25)


def nothing_found(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open("/?order_id=nothing")
    expect(tab.page.get_by_text("No payment matches.")).to_be_visible()


def problem(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open("/?status=paid")
    expect(tab.problem).to_be_visible()
    tab.forgive("400")


def creation(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open()
    tab.button("New payment…").click()
    dialog = tab.page.get_by_role("dialog", name="New payment")
    dialog.get_by_label("Amount").fill("0")
    dialog.get_by_role("button", name="Create").click()
    expect(dialog.get_by_role("alert")).to_be_visible()


def reset(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open()
    tab.button("Reset…").click()
    expect(tab.page.get_by_role("dialog", name="Reset this sandbox?")).to_be_visible()


def payment(status: PaymentStatus) -> State:
    def shown(tab: Tab, api: Sandbox) -> None:
        tab.use_key(api.api_key).open(f"/payments/{paid(api, status)['id']}")
        expect(tab.status).to_have_text(status.replace("_", " "))
        tab.page.get_by_text("The same as a table").click()

    return shown


def payment_of_many_deposits(tab: Tab, api: Sandbox) -> None:
    made = api.created("no_payment_expired", metadata={"a" * 40: "b" * 500})
    for amount in range(1, 11):
        api.deposit(made, amount * DUE // 10)
        api.move(made, seconds=2)
    tab.use_key(api.api_key).open(f"/payments/{made['id']}")
    expect(tab.page.get_by_text("2 more deposits are in the table")).to_be_visible()


def unknown_payment(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open("/payments/nope")
    expect(tab.problem).to_be_visible()
    tab.forgive("404")


def no_requests(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open("/requests")
    expect(tab.page.get_by_text("No requests below /v1 to show.")).to_be_visible()


def requests(tab: Tab, api: Sandbox) -> None:
    made = api.created()
    api.payment(made["id"])
    api.create(order(order_id="", receive__address="0x", nonsense="x" * 60))
    tab.use_key(api.api_key).open("/requests")
    expect(tab.rows()).to_have_count(3)


def fault_rules(tab: Tab, api: Sandbox) -> None:
    made = api.created(order_id=LONG)
    for times in (1, 2, None):
        rule = {"fault": "status=503; after; times=100000", "payment_id": made["id"], "times": times}
        assert api.post("/_mock/faults", json={**rule, "order_id": LONG}).status_code == 201
    for _ in range(2):
        api.get(f"/v1/payments/{made['id']}")
    tab.use_key(api.api_key).open("/requests")
    expect(tab.rules()).to_have_count(3)
    expect(tab.rows()).to_have_count(3)


def new_fault_rule(tab: Tab, api: Sandbox) -> None:
    tab.use_key(api.api_key).open("/requests")
    tab.button("Add a rule…").click()
    dialog = tab.page.get_by_role("dialog", name="New fault rule")
    dialog.get_by_label("Fault", exact=True).fill("boom")
    dialog.get_by_role("button", name="Add").click()
    expect(dialog.get_by_text("must be status=CODE")).to_be_visible()
    tab.forgive("422")


def checkout(status: PaymentStatus) -> State:
    def shown(tab: Tab, api: Sandbox) -> None:
        tab.open(f"/checkout/{paid(api, status)['id']}")
        expect(tab.headline).to_have_text(VIEWS[status].headline)

    return shown


def part_at_the_checkout(tab: Tab, api: Sandbox) -> None:
    made = api.created("underpaid_expired")
    api.advance(13)
    tab.open(f"/checkout/{made['id']}")
    expect(tab.headline).to_have_text("A part has arrived")


def payment_gone_at_the_checkout(tab: Tab, api: Sandbox) -> None:
    made = api.created()
    checkout_page(tab, made)
    api.reset()
    expect(tab.page.get_by_text("This payment is no longer there.")).to_be_visible()
    tab.forgive("404")


def unknown_checkout(tab: Tab, api: Sandbox) -> None:
    tab.page.goto(f"{tab.origin}/checkout/nope")
    expect(tab.headline).to_have_text("There is no such payment")
    tab.forgive("404")


STATES: dict[str, State] = {
    state.__name__.replace("_", " "): state
    for state in (
        key_form,
        wrong_key,
        empty_list,
        full_list,
        nothing_found,
        problem,
        creation,
        reset,
        payment_of_many_deposits,
        unknown_payment,
        no_requests,
        requests,
        fault_rules,
        new_fault_rule,
        part_at_the_checkout,
        payment_gone_at_the_checkout,
        unknown_checkout,
    )
}
STATES |= {
    f"payment, {status}": payment(status)
    for status in (PaymentStatus.AWAITING_PAYMENT, PaymentStatus.OVERPAID_REVIEW, PaymentStatus.FAILED)
}
STATES |= {f"checkout, {status}": checkout(status) for status in VIEWS if not status.startswith("settlement")}


def violations(tab: Tab, **rules: object) -> list[str]:
    """What axe-core has to say of the page: the rule, and where it is broken."""
    found = Axe().run(tab.page, options={"resultTypes": ["violations"], **rules}).response["violations"]
    return [f"{rule['id']}: {node['target']}" for rule in found for node in rule["nodes"]]


@pytest.mark.parametrize("state", STATES)
def test_page_can_be_used_by_everybody_in_any_window(new_tab: NewTab, api: Sandbox, state: str) -> None:
    tab = new_tab()
    STATES[state](tab, api)
    assert violations(tab, runOnly={"type": "tag", "values": RULES}) == []
    tab.page.emulate_media(color_scheme="dark", reduced_motion="reduce")
    assert violations(tab, runOnly={"type": "rule", "values": ["color-contrast"]}) == []
    assert tab.page.evaluate(MOVING) == 0
    for width in WIDTHS:
        tab.page.set_viewport_size({"width": width, "height": 800})
        tab.page.evaluate("() => new Promise(requestAnimationFrame)")
        assert tab.fits(), width


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
