"""The rules of the request bodies of `/v1`."""

from typing import Any

import msgspec
import pytest

from paymock.schemas.public import CreatePayment, CreateWebhookEndpoint, Health
from paymock.schemas.validation import Problems, checker_for
from tests.support.client import order

ENDPOINT = {"url": "https://merchant.example/hooks"}


def problems_of(wire_type: type, body: Any) -> Problems:
    problems: Problems = {}
    checker_for(wire_type)(body, "", problems)
    return problems


def test_optional_fields_can_be_left_out() -> None:
    assert problems_of(CreatePayment, order(refund_to=..., expires_at=..., metadata=...)) == {}
    assert problems_of(CreateWebhookEndpoint, ENDPOINT) == {}


@pytest.mark.parametrize(
    "field",
    ["order_id", "receive", "settlement", "pay_with", "receive.chain", "receive.asset", "receive.amount",
     "receive.address", "settlement.mode", "pay_with[0].chain", "pay_with[0].asset", "refund_to.chain",
     "refund_to.address"],
)  # fmt: skip
def test_a_required_field_is_named_when_it_is_missing(field: str) -> None:
    path = field.replace("[", ".").replace("]", "").replace(".", "__")
    assert list(problems_of(CreatePayment, order(**{path: ...}))) == [field]


@pytest.mark.parametrize("parent", ["", "receive.", "settlement.", "pay_with[0].", "refund_to."])
def test_an_unknown_field_is_refused_by_name_at_every_level(parent: str) -> None:
    path = (parent + "extra").replace("[", ".").replace("]", "").replace(".", "__")
    [(field, message)] = problems_of(CreatePayment, order(**{path: 1})).items()
    assert field == f"{parent}extra"
    assert "is not a field" in message


@pytest.mark.parametrize("number", [0, 2])
def test_there_is_exactly_one_way_to_pay(number: int) -> None:
    assert list(problems_of(CreatePayment, order(pay_with=[{"chain": "bsc", "asset": "USDT"}] * number))) == [
        "pay_with"
    ]


def test_an_endpoint_has_a_url_and_no_unknown_field() -> None:
    assert list(problems_of(CreateWebhookEndpoint, {"event": "*"})) == ["url", "event"]


def test_a_reply_with_a_field_of_a_later_release_can_be_read() -> None:
    assert msgspec.json.decode(b'{"status":"ok","later":1}', type=Health) == Health(status="ok")
