"""The sandboxes of a configured key: each is apart from the others, and the key lists them."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from paymock.settings import Settings
from tests.support.client import Api, error_of, fresh_key, order
from tests.support.contract import Contract, Json
from tests.support.server import RunningServer, running_server

Open = Callable[..., Api]


KEYS = [f"secret-{number}" for number in range(20)]


@pytest.fixture(scope="module")
def keyed_server() -> Iterator[RunningServer]:
    with running_server(Settings(port=0, api_keys=tuple(KEYS))) as server:
        yield server


@pytest.fixture
def open_sandbox(keyed_server: RunningServer, contract: Contract) -> Iterator[Open]:
    """Opens the sandbox with this suffix of a key that no other test uses."""
    key = KEYS.pop()
    with ExitStack() as stack:
        yield lambda suffix="": stack.enter_context(Api(keyed_server.url, contract, key + suffix))


def listed(api: Api) -> list[Json]:
    reply = api.get("/_mock/sandboxes")
    assert reply.status_code == 200, reply.text
    data: list[Json] = reply.json()["data"]
    return data


def names(api: Api) -> list[str | None]:
    return [one["name"] for one in listed(api)]


def test_what_belongs_to_a_sandbox_is_invisible_in_the_others_of_its_key(open_sandbox: Open) -> None:
    first = open_sandbox(".a")
    key = fresh_key()
    payment = first.create(key=key).json()
    first.speed(0)
    first.post("/_mock/next", json={"scenario": "late_payment"})
    first.post("/_mock/faults", json={"fault": "drop"})
    for suffix in ("", ".b"):
        other = open_sandbox(suffix)
        assert error_of(other.get(f"/v1/payments/{payment['id']}")) == (404, "payment_not_found")
        assert other.get("/_mock/clock").json()["speed"] == 1
        for path in ("next", "faults", "requests", "payments"):
            assert len(other.get(f"/_mock/{path}").json()["data"]) == (path == "requests")
        created = other.create(order(order_id="order-2"), key=key)
        assert (created.status_code, created.json()["id"] != payment["id"]) == (201, True)


def test_a_key_lists_its_sandboxes_that_hold_something_last_used_first(
    open_sandbox: Open, keyed_server: RunningServer
) -> None:
    whole = open_sandbox()
    assert listed(whole) == [{"name": None, "payments": 0, "last_used": None}]
    first, second, empty = (open_sandbox(suffix) for suffix in (".first", ".second", ".empty"))
    for number, api in enumerate((first, second, second, first, first), 1):
        keyed_server.clock.advance(1)
        api.created(order_id=f"order-{number}")
    empty.speed(0)
    keyed_server.clock.advance(1)
    second.get("/v1/payments/unknown")
    moments = {api: api.get("/_mock/requests").json()["data"][0]["at"] for api in (first, second)}
    assert listed(whole) == [
        {"name": None, "payments": 0, "last_used": None},
        {"name": "second", "payments": 2, "last_used": moments[second]},
        {"name": "first", "payments": 3, "last_used": moments[first]},
    ]
    assert listed(second) == [{"name": "second", "payments": 2, "last_used": moments[second]}]
    assert names(empty) == ["empty"]


def test_a_reset_leaves_the_other_sandboxes_of_the_key(open_sandbox: Open) -> None:
    whole, first, second = (open_sandbox(suffix) for suffix in ("", ".first", ".second"))
    payments = [api.created() for api in (whole, first, second)]
    assert whole.post("/_mock/reset").status_code == 204
    assert [first.payment(payments[1]["id"])["id"], second.payment(payments[2]["id"])["id"]]
    assert [one["payments"] for one in listed(whole)] == [0, 1, 1]
    assert first.post("/_mock/reset").status_code == 204
    assert names(whole) == [None, "second"]
    first.created()
    assert sorted(map(str, names(whole))) == ["None", "first", "second"]


def test_a_key_does_not_list_the_sandboxes_of_another(
    open_sandbox: Open, keyed_server: RunningServer, contract: Contract
) -> None:
    open_sandbox(".mine").created()
    with Api(keyed_server.url, contract, KEYS.pop()) as other:
        assert names(other) == [None]


def test_open_mode_lists_the_sandbox_of_the_key_alone(api: Api) -> None:
    api.created()
    [own] = listed(api)
    assert (own["name"], own["payments"]) == (None, 1)


def test_of_many_sandboxes_those_used_last_are_listed(
    open_sandbox: Open, keyed_server: RunningServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    for limit, value in (("MAX_LISTED", 3), ("MAX_NAMES", 8)):
        monkeypatch.setattr(f"paymock.app.control.{limit}", value)
    for number in (*range(9), 1, 0):
        keyed_server.clock.advance(1)
        open_sandbox(f".{number}").created()
    open_sandbox(".6").post("/_mock/reset")
    assert names(open_sandbox()) == [None, "1", "8", "7"]
