"""The record of a webhook endpoint, and its reply bodies."""

import msgspec
import pytest

from paymock.payments import endpoints
from paymock.rules.errors import PaymockError
from tests.support.clock import NOON

TOKEN = "aabbccddeeffgghhiijjkkllmmnnooppqqrrsstt"


def test_the_default_is_every_event() -> None:
    record = endpoints.create_record({"url": "https://shop.example/hooks"}, TOKEN, b"", NOON)
    assert (record.url, record.events, record.description) == ("https://shop.example/hooks", ["*"], None)


def test_only_the_create_reply_contains_the_secret() -> None:
    record = endpoints.create_record({"url": "https://shop.example/hooks"}, TOKEN, b"", NOON)
    created, listed = endpoints.render_created(record), endpoints.render(record)
    assert created.secret.startswith("whsec_")
    assert "secret" not in msgspec.json.encode(listed).decode()
    assert (listed.id, listed.created_at) == ("we_" + TOKEN, "2030-01-31T12:00:00.000Z")


def test_every_problem_is_listed_at_once() -> None:
    with pytest.raises(PaymockError) as caught:
        endpoints.create_record({"events": ["payment.paid"], "more": 1}, TOKEN, b"", NOON)
    assert list(caught.value.details or {}) == ["url", "events[0]", "more"]
