"""Every page in every state that a person can meet it in."""

from collections.abc import Callable

from playwright.sync_api import expect

from paymock.payments.checkout import VIEWS
from paymock.rules.scenarios import PaymentStatus
from paymock.verify.report import html
from tests.support.client import DUE, order
from tests.support.contract import Json
from tests.support.specification import COURSES
from tests.verify.test_report import finding, report
from tests.web.pages.browser.steps import TIMES, Tab, checkout_page
from tests.web.pages.sandbox import Sandbox

LONG = "an-order-with-a-very-long-id-" * 4

State = Callable[[Tab, Sandbox], None]


def paid(api: Sandbox, status: PaymentStatus) -> Json:
    scenario = next(name for name, course in COURSES.items() if status in [entry[1] for entry in course])
    payment = api.created(scenario, order_id=LONG)
    if status is not PaymentStatus.AWAITING_PAYMENT:
        api.move(payment, to=status)
    return payment


def opened(tab: Tab, api: Sandbox, path: str = "/") -> Tab:
    return tab.use_key(api.api_key).open(path)


def at(path: str, text: str, *refused: str) -> State:
    """A page of an empty sandbox, where it says this, and what the browser notes of it."""

    def shown(tab: Tab, api: Sandbox) -> None:
        opened(tab, api, path)
        expect(tab.page.get_by_text(text).filter(visible=True)).to_be_visible()
        tab.forgive(*refused)

    return shown


def key_form(tab: Tab, api: Sandbox) -> None:
    tab.page.goto(f"{tab.origin}/payments/nope")  # may be in the sandbox of any key
    expect(tab.page.get_by_label("API key")).to_be_focused()


def full_list(tab: Tab, api: Sandbox) -> None:
    for status in [*PaymentStatus] * 3:
        paid(api, status)
    expect(opened(tab, api).orders()).to_have_count(33)


def creation(tab: Tab, api: Sandbox) -> None:
    opened(tab, api).button("New payment…").click()
    form = tab.page.get_by_role("dialog")
    form.get_by_label("Amount").fill("0")
    form.get_by_role("button", name="Create").click()
    expect(form.get_by_text("Must be a positive number")).to_be_visible()


def switch(tab: Tab, api: Sandbox) -> None:
    opened(tab, api).page.locator("#sandbox").click()
    expect(tab.page.get_by_role("list", name="Used before")).to_be_visible()


def clock_of_a_phone(tab: Tab, api: Sandbox) -> None:
    tab.page.set_viewport_size({"width": 375, "height": 700})
    opened(tab, api).button("Clock…").click()
    expect(tab.button("Freeze")).to_be_visible()


def connection_lost(tab: Tab, api: Sandbox) -> None:
    made = paid(api, PaymentStatus.PAYMENT_DETECTED)
    tab.stop_time()
    expect(opened(tab, api, f"/payments/{made['id']}").status).to_have_text("payment_detected")
    tab.lose("**/_mock/clock")
    expect(tab.connection).to_contain_text("Connection lost")
    tab.forgive("net::ERR")


def shortcuts(tab: Tab, api: Sandbox) -> None:
    opened(tab, api).page.keyboard.press("?")


def reset(tab: Tab, api: Sandbox) -> None:
    opened(tab, api).button("Reset…").click()
    expect(tab.page.get_by_role("dialog")).to_be_visible()


def payment(status: PaymentStatus) -> State:
    def shown(tab: Tab, api: Sandbox) -> None:
        opened(tab, api, f"/payments/{paid(api, status)['id']}")
        expect(tab.status).to_have_text(status)
        tab.page.get_by_text("Show as a table").click()
        tab.page.get_by_label("Read at").press("Home")

    return shown


def payment_of_many_deposits(tab: Tab, api: Sandbox) -> None:
    made = api.created("no_payment_expired", metadata={"a" * 40: "b" * 500})
    for amount in range(1, 11):
        api.deposit(made, amount * DUE // 10)
        api.move(made, seconds=2)
    opened(tab, api, f"/payments/{made['id']}")
    expect(tab.page.get_by_text("2 more deposits are in the table")).to_be_visible()


def requests(tab: Tab, api: Sandbox) -> None:
    made = api.created(order_id=LONG)
    api.get(f"/v1/payments/{made['id']}", headers={"X-Mock-Fault": "status=503; after; times=100000"})
    api.create(order(order_id="", receive__address="0x", nonsense="x" * 60))
    expect(opened(tab, api, "/requests").rows()).to_have_count(3)
    tab.rows().first.locator("summary").click()


def faults(tab: Tab, api: Sandbox) -> None:
    fault = {"fault": "status=503; after; html; times=100000", "times": 100_000}
    assert api.post("/_mock/faults", json={**fault, "skip": 5, "order_id": LONG}).status_code == 201
    overrides = (
        {"scenario": "settlement_failed", "times": 100_000},
        {"scenario": "late_payment", "order_id": LONG},
    )
    for override in overrides:
        assert api.post("/_mock/next", json=override).status_code == 200
    form = opened(tab, api, "/faults").page.get_by_role("form", name="Add a fault")
    expect(tab.rows()).to_have_count(1)
    form.get_by_label("Fault", exact=True).fill("boom")
    form.get_by_role("button", name="Add").click()
    expect(form.get_by_text("must be status=CODE")).to_be_visible()
    tab.forgive("422")


def checkout(status: PaymentStatus) -> State:
    def shown(tab: Tab, api: Sandbox) -> None:
        opened(tab, api, f"/checkout/{paid(api, status)['id']}")
        expect(tab.headline).to_have_text(VIEWS[status].headline)
        expect(tab.button("Next step")).to_be_visible()

    return shown


def connection_lost_at_the_checkout(tab: Tab, api: Sandbox) -> None:
    tab.stop_time()
    checkout_page(tab, api.created(order_id=LONG))
    tab.lose("**/checkout/*.json")
    expect(tab.page.get_by_text("Connection lost. Trying again…")).to_be_visible()
    tab.forgive("net::ERR")


def details_at_the_checkout(tab: Tab, api: Sandbox) -> None:
    made = api.created(order_id=LONG, receive__amount=str(10**70))
    api.speed(10)
    checkout_page(tab, made).page.get_by_text("Details").click()
    expect(tab.page.get_by_text(f"The clock runs at {TIMES}10.")).to_be_visible()


def report_of_verify(tab: Tab, api: Sandbox) -> None:
    failed = finding("free_goods", output=["Traceback:", f"  File {LONG}"], neighbors=[LONG])
    tab.page.set_content(html(report(failed, "gives_up", undetermined=(LONG,), notes=[LONG])).decode())
    expect(tab.headline).to_have_text("UNSAFE")


STATES: dict[str, State] = {
    state.__name__.replace("_", " "): state
    for state in (
        key_form, full_list, creation, switch, clock_of_a_phone, connection_lost, reset, shortcuts,
        payment_of_many_deposits, requests, faults,
        connection_lost_at_the_checkout, details_at_the_checkout, report_of_verify,
    )
}  # fmt: skip
STATES |= {
    "empty list": at("/", "No payments yet"),
    "nothing found": at("/?search=nothing", "No payment matches."),
    "problem": at("/?status=paid", "status must be one of", "400"),
    "unknown payment": at("/payments/nope", "There is no such payment", "404"),
    "unknown checkout": at("/checkout/nope", "There is no such payment", "404"),
    "no requests": at("/requests", "No requests below /v1 to show."),
}
STATES |= {
    f"payment, {status}": payment(status)
    for status in (PaymentStatus.AWAITING_PAYMENT, PaymentStatus.OVERPAID_REVIEW, PaymentStatus.FAILED)
}
STATES |= {f"checkout, {status}": checkout(status) for status in VIEWS if not status.startswith("settlement")}
