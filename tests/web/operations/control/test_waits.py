from concurrent.futures import ThreadPoolExecutor

import httpx
import pytest

from harness.polling import wait_until
from tests.support.client import Api, error_of
from tests.support.contract import Contract
from tests.support.server import RunningServer


@pytest.mark.parametrize(
    ("scenario", "moved", "query", "expected"),
    [
        ("happy_path", 20, "status=payment_detected&timeout=60", (True, True)),
        ("happy_path", 0, "status=failed&timeout=60", (False, False)),
        ("happy_path", 60, "timeout=60", (False, False)),
        ("overpaid_review", 60, "status=completed&timeout=60", (False, False)),
        ("happy_path", 0, "status=completed&timeout=0.0001", (False, True)),
        ("no_payment_expired", 0, "status=underpaid_expired&timeout=0", (False, True)),
        ("no_payment_expired", 60, "timeout=00.1e-1", (False, True)),  # a late deposit may still come
    ],
)
def test_a_wait_says_whether_its_status_was_reached_and_still_can_be(
    api: Api, scenario: str, moved: float, query: str, expected: tuple[bool, bool]
) -> None:
    payment = api.created(scenario)
    if moved:
        api.advance(moved)
    result = api.get(f"/_mock/payments/{payment['id']}/wait?{query}").json()
    assert (result["reached"], result["possible"]) == expected
    assert result["payment"] == api.payment(payment["id"])


@pytest.mark.parametrize("wake", ["advance", "move", "deposit", "speed"])
def test_a_wait_ends_with_a_change(api: Api, server: RunningServer, contract: Contract, wake: str) -> None:
    payment = api.created("no_payment_expired" if wake == "deposit" else None)
    path = f"/_mock/payments/{payment['id']}/wait?status=payment_detected&timeout=60"
    with Api(server.url, contract, api.api_key) as waiting, ThreadPoolExecutor(1) as thread:
        result = thread.submit(waiting.get, path)
        wait_until(lambda: server.app.notifier.waiting == 1)
        match wake:
            case "advance":
                api.advance(5)
            case "move":
                api.move(payment, seconds=5)
            case "deposit":
                api.deposit(payment, 1)
            case "speed":
                api.put("/_mock/clock", json={"speed": 10_000})
                server.clock.advance(0.001)
        assert result.result().json()["reached"]


def test_a_client_that_leaves_stops_its_observed_advance(api: Api, server: RunningServer) -> None:
    payment = api.created()
    body = {"to": "completed", "until_observed": True}
    with pytest.raises(httpx.ReadTimeout):
        api.post(f"/_mock/payments/{payment['id']}/advance", json=body, timeout=0.2)
    wait_until(lambda: server.app.notifier.waiting == 0)
    for _ in range(3):
        assert api.payment(payment["id"])["status"] == "payment_detected"


@pytest.mark.parametrize("path", ["payments/{}/wait", "wait", "requests/wait"])
def test_a_wait_that_makes_no_sense_is_refused(api: Api, path: str) -> None:
    path = "/_mock/" + path.format(api.created()["id"])
    own = {
        "wait": ["status=paid", "order_id=", "order_id=a&status=paid"],
        "requests/wait": ["count=0", "count=1001", "operation=x", "shown=paid", "after=", "payment_id="],
    }
    timeouts = ["nan", "1e999", "-1e-9", "60.1", "9" * 400, ".5", "1_0", "%2B1", ""]
    for query in (
        *own.get(path.removeprefix("/_mock/"), ["status=done"]),
        "x=1",
        *map("timeout={}".format, timeouts),
    ):
        assert error_of(api.get(f"{path}?{query}")) == (400, "invalid_query")
