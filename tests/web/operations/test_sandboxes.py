"""The sandboxes of a configured key: each is apart from the others."""

from collections.abc import Callable, Iterator
from contextlib import ExitStack

import pytest

from paymock.settings import Settings
from tests.support.client import Api, error_of, fresh_key, order
from tests.support.contract import Contract
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


def test_a_reset_leaves_the_other_sandboxes_of_the_key(open_sandbox: Open) -> None:
    whole, first, second = (open_sandbox(suffix) for suffix in ("", ".first", ".second"))
    payments = [api.created() for api in (whole, first, second)]
    assert whole.post("/_mock/reset").status_code == 204
    assert [first.payment(payments[1]["id"])["id"], second.payment(payments[2]["id"])["id"]]
    assert error_of(whole.get(f"/v1/payments/{payments[0]['id']}")) == (404, "payment_not_found")
