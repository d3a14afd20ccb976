"""Canaries are found where they belong, and nowhere else. See SECURITY.md, "Properties"."""

from collections.abc import Iterator

import pytest

from paymock.settings import Settings
from tests.support import canaries
from tests.support.canaries import BELONGS, CONFIGURED_KEY, OPEN_KEY, OTHER_KEYS, Merchant
from tests.support.operations import OPERATIONS
from tests.support.server import running_server

FEW = [one for one in OPERATIONS if one.operation_id in ("createPayment", "createWebhookEndpoint")]


@pytest.fixture(
    scope="session",
    params=[
        pytest.param(("text", OPEN_KEY, FEW), id="an open server, log as text, few operations"),
        pytest.param(("text", OPEN_KEY, OPERATIONS), id="an open server, log as text", marks=pytest.mark.ci),
        pytest.param(("json", CONFIGURED_KEY, OPERATIONS), id="a configured key", marks=pytest.mark.nightly),
    ],
)
def merchant(request: pytest.FixtureRequest) -> Iterator[Merchant]:
    """After everything has been tried."""
    form, key, operations = request.param
    keys = () if key == OPEN_KEY else (key, OTHER_KEYS[key])
    settings = Settings(port=0, log=form, api_keys=keys, metrics_address="127.0.0.1:0")
    with running_server(settings) as server, pytest.MonkeyPatch.context() as monkeypatch:
        merchant = Merchant(server, key)
        with merchant.client:
            merchant.try_everything(operations, monkeypatch)
        merchant.found[canaries.LOG].append(server.log.getvalue())
        yield merchant


@pytest.mark.parametrize("word", BELONGS)
def test_a_word_is_found_where_it_belongs_and_nowhere_else(merchant: Merchant, word: str) -> None:
    assert merchant.where(word) == BELONGS[word]


def test_a_secret_is_found_in_the_reply_that_tells_it_alone(merchant: Merchant) -> None:
    assert merchant.secrets
    assert {merchant.where(secret) for secret in merchant.secrets} == {(canaries.OWN,)}


def test_an_api_key_is_found_nowhere(merchant: Merchant) -> None:
    for key in (merchant.api_key, OTHER_KEYS[merchant.api_key]):
        assert merchant.where(key) == ()


def test_there_is_text_where_words_are_looked_for(merchant: Merchant) -> None:
    assert all(len(merchant.texts[place]) > 1000 for place in canaries.PLACES)
    for place, word in (
        (canaries.LOG, "defect"),
        (canaries.LOG, "***"),
        (canaries.JOURNAL, "***"),
        (canaries.METRICS, "paymock_requests_total"),
    ):
        assert word in merchant.texts[place]


@pytest.mark.parametrize("text", ["a%2Fb%3D%3D", "A/B==", "YS9iPT0", "612f623d3d"])
def test_a_word_is_found_in_another_form(text: str) -> None:
    assert any(form in text.lower() for form in canaries.forms("a/b=="))
