"""Canaries are found where they belong, and nowhere else. See SECURITY.md, "Properties"."""

from collections.abc import Iterator

import pytest

from paymock.settings import Settings
from tests.support.canaries import (
    BELONGS,
    CONFIGURED_KEY,
    JOURNAL,
    LOG,
    METRICS,
    OPEN_KEY,
    OTHER_KEYS,
    OWN,
    PLACES,
    Merchant,
    forms,
)
from tests.support.operations import OPERATIONS
from tests.support.server import running_server


@pytest.fixture(
    scope="module",
    params=[("text", OPEN_KEY), ("json", CONFIGURED_KEY)],
    ids=["an open server, log as text", "a configured key, log as JSON"],
)
def merchant(request: pytest.FixtureRequest) -> Iterator[Merchant]:
    """After everything has been tried."""
    form, key = request.param
    keys = () if key == OPEN_KEY else (key, OTHER_KEYS[key])
    settings = Settings(port=0, log=form, api_keys=keys, metrics_address="127.0.0.1:0")
    with running_server(settings) as server:
        merchant = Merchant(server, key)
        for operation in OPERATIONS:
            merchant.try_everything(operation)
            merchant.look()
        merchant.send_malformed()
        with pytest.MonkeyPatch.context() as monkeypatch:
            merchant.meet_a_defect(monkeypatch)
        merchant.visit()
        merchant.look()
        merchant.look_as_another()
        merchant.client.close()
        merchant.found[LOG].append(server.log.getvalue())
        yield merchant


@pytest.mark.parametrize("word", BELONGS)
def test_a_word_is_found_where_it_belongs_and_nowhere_else(merchant: Merchant, word: str) -> None:
    assert merchant.where(word) == BELONGS[word]


def test_an_api_key_is_found_nowhere(merchant: Merchant) -> None:
    for key in (merchant.api_key, merchant.other_key):
        assert merchant.where(key) == ()


def test_the_secret_of_a_webhook_is_found_in_its_merchants_replies_alone(merchant: Merchant) -> None:
    assert merchant.secrets
    for secret in merchant.secrets:
        assert merchant.where(secret) == (OWN,)


def test_every_place_has_been_looked_into(merchant: Merchant) -> None:
    assert all(len("".join(merchant.found[place])) > 1000 for place in PLACES)
    assert "defect" in "".join(merchant.found[LOG])
    assert "paymock_requests_total" in "".join(merchant.found[METRICS])
    assert "***" in "".join(merchant.found[LOG])
    assert "***" in "".join(merchant.found[JOURNAL])


@pytest.mark.parametrize("text", ["a%2Fb%3D%3D", "A/B==", "YS9iPT0", "612f623d3d"])
def test_a_word_is_found_in_another_form(text: str) -> None:
    assert any(form in text.lower() for form in forms("a/b=="))
