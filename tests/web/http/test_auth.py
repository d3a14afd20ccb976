"""API keys, and the sandbox that each of them opens."""

from collections.abc import Iterator

import httpx
import pytest

from paymock.settings import Settings
from tests.support import raw
from tests.support.client import Api, error_of
from tests.support.contract import Contract
from tests.support.server import RunningServer, running_server

UNAUTHENTICATED = (401, "unauthenticated")
INVALID_TOKEN = ', error="invalid_token"'
KEYS = ("key-of-the-first-merchant", "key-of-the-second-merchant")


@pytest.fixture(scope="module")
def keyed_server() -> Iterator[RunningServer]:
    with running_server(Settings(port=0, api_keys=KEYS)) as server:
        yield server


def chains(server: RunningServer, authorization: str | None) -> httpx.Response:
    headers = {} if authorization is None else {"Authorization": authorization}
    return httpx.get(f"{server.url}/v1/chains", headers=headers)


@pytest.mark.parametrize("key", KEYS)
def test_configured_keys_are_accepted(keyed_server: RunningServer, key: str) -> None:
    assert chains(keyed_server, f"Bearer {key}").status_code == 200


@pytest.mark.parametrize("scheme", ["bearer", "BEARER", "Bearer ", "bEaReR"])
def test_the_scheme_word_is_case_insensitive(keyed_server: RunningServer, scheme: str) -> None:
    assert chains(keyed_server, f"{scheme} {KEYS[0]}").status_code == 200


@pytest.mark.parametrize(
    ("authorization", "suffix"),
    [
        (None, ""),
        ("", ""),
        ("Bearer", ""),
        (KEYS[0], ""),
        (f"Basic {KEYS[0]}", ""),
        (f"Bearer\t{KEYS[0]}", ""),
        (f"Bearer {KEYS[0]} x", ""),
        (f"Bearer {KEYS[0]},", INVALID_TOKEN),
        (f"Bearer {KEYS[0]}x", INVALID_TOKEN),
        (f"Bearer {KEYS[0][:-1]}", INVALID_TOKEN),
        (f"Bearer {KEYS[0].upper()}", INVALID_TOKEN),
        ("Bearer mk_test_demo", INVALID_TOKEN),
    ],
)
def test_anything_else_is_refused(
    keyed_server: RunningServer, authorization: str | None, suffix: str
) -> None:
    response = chains(keyed_server, authorization)
    assert error_of(response) == UNAUTHENTICATED
    assert response.headers["www-authenticate"] == 'Bearer realm="paymock"' + suffix
    assert KEYS[0] not in response.text


@pytest.mark.parametrize(
    "token", ["unauthenticated", "authenticated", "key-of-the-first-merchant-not", "Authorization:"]
)
def test_a_token_that_is_a_word_of_the_refusal_does_not_spoil_it(
    keyed_server: RunningServer, token: str
) -> None:
    response = chains(keyed_server, f"Bearer {token}")
    assert error_of(response) == UNAUTHENTICATED
    assert token not in response.json()["error"]["message"]


@pytest.mark.parametrize("token", ["text/html", "stylesheet", 'viewport"'])
def test_a_token_that_is_a_word_of_a_page_does_not_spoil_it(keyed_server: RunningServer, token: str) -> None:
    url = f"{keyed_server.url}/checkout/pay_unknown"
    page = httpx.get(url, headers={"Authorization": f"Bearer {token}"})
    assert (page.status_code, page.content) == (404, httpx.get(url).content)


@pytest.mark.parametrize("name", ["a", "demo", "A-z_0-9", "x" * 64])
def test_open_mode_accepts_any_test_key(shared_server: RunningServer, name: str) -> None:
    assert chains(shared_server, f"Bearer mk_test_{name}").status_code == 200


@pytest.mark.parametrize(
    "key", ["mk_test_", "mk_test_" + "x" * 65, "mk_test_a.b", "mk_live_demo", "demo", "MK_TEST_demo"]
)
def test_open_mode_refuses_any_other_key(shared_server: RunningServer, key: str) -> None:
    response = chains(shared_server, f"Bearer {key}")
    assert error_of(response) == UNAUTHENTICATED
    assert "mk_test_demo" in response.json()["error"]["message"]


def test_authorization_comes_before_the_body(shared_server: RunningServer) -> None:
    head = raw.request("POST", "/v1/payments", {"Content-Type": "application/json", "Content-Length": "9"})
    [reply] = raw.exchange(shared_server.port, head)
    assert (reply.status, reply.code) == UNAUTHENTICATED


def test_sandboxes_do_not_see_each_other(server: RunningServer, contract: Contract) -> None:
    with Api(server.url, contract) as one, Api(server.url, contract) as other:
        payment = one.created()
        one.create({"url": "https://x.example"}, path="/v1/webhooks")
        for path in (f"/v1/payments/{payment['id']}", f"/v1/payments/{payment['id']}/attempts"):
            unknown = other.get("/v1/payments/pay_unknown")
            assert other.get(path).json() == unknown.json()
            assert error_of(other.get(path)) == (404, "payment_not_found")
        assert other.get("/v1/webhooks").json() == {"data": []}
