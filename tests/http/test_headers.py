from collections.abc import Iterator
from contextlib import nullcontext

import pytest

from paymock.http.hosts import AllowedHosts
from paymock.http.keys import Keyring
from paymock.http.requests import Request
from paymock.rules.errors import PaymockError
from paymock.rules.identifiers import sandbox_of
from paymock.settings import Address, Settings
from tests.support import raw
from tests.support.client import Api
from tests.support.server import RunningServer, running_server

UNAUTHENTICATED = (401, "unauthenticated")
INVALID_TOKEN = ', error="invalid_token"'
KEYS = ("key-of-the-first-merchant", "key-of-the-second-merchant", "team.a", "team.a.special=")


@pytest.fixture(scope="module")
def keyed_server() -> Iterator[RunningServer]:
    with running_server(Settings(port=0, api_keys=KEYS)) as server:
        yield server


def get(server: RunningServer, authorization: str | None, path: str = "/v1/chains") -> raw.RawReply:
    headers = {} if authorization is None else {"Authorization": authorization}
    [reply] = raw.exchange(server.port, raw.request("GET", path, headers))
    return reply


@pytest.mark.parametrize("scheme", ["Bearer", "bearer", "BEARER", "Bearer ", "bEaReR"])
def test_configured_keys_with_the_scheme_in_any_case(keyed_server: RunningServer, scheme: str) -> None:
    assert [get(keyed_server, f"{scheme} {key}").status for key in KEYS] == [200] * 4


@pytest.mark.parametrize(
    ("authorization", "suffix"),
    [
        (KEYS[0], ""),
        (f"Bearer {KEYS[0]} x", ""),
        (f"Bearer {KEYS[0]},", INVALID_TOKEN),
        (f"Bearer {KEYS[0]}x", INVALID_TOKEN),
        (f"Bearer {KEYS[0][:-1]}", INVALID_TOKEN),
        (f"Bearer {KEYS[0].upper()}", INVALID_TOKEN),
        ("Bearer mk_test_demo", INVALID_TOKEN),
        (f"Bearer {KEYS[0]}.", INVALID_TOKEN),
        (f"Bearer {KEYS[0]}.a.b", INVALID_TOKEN),
        (f"Bearer {KEYS[0]}.a+b", INVALID_TOKEN),
        (f"Bearer {KEYS[0]}." + "n" * 65, INVALID_TOKEN),
        (f"Bearer {KEYS[0]}x.name", INVALID_TOKEN),
        ("Bearer team", INVALID_TOKEN),
        ("Bearer team.b", INVALID_TOKEN),
        ("Bearer .name", INVALID_TOKEN),
    ],
)
def test_anything_else_is_refused(
    keyed_server: RunningServer, authorization: str | None, suffix: str
) -> None:
    reply = get(keyed_server, authorization)
    assert (reply.status, reply.code) == UNAUTHENTICATED
    assert reply.headers["www-authenticate"] == 'Bearer realm="paymock"' + suffix
    assert KEYS[0].encode() not in reply.body
    assert b"KEY.NAME" in reply.body


@pytest.mark.parametrize(
    ("key", "owner"),
    [
        (KEYS[0], KEYS[0]),
        (f"{KEYS[0]}.test-1", KEYS[0]),
        (f"{KEYS[1]}." + "n" * 64, KEYS[1]),
        ("team.a", "team.a"),
        ("team.a.test_1", "team.a"),
        ("team.a.special=", "team.a.special="),
        ("team.a.special=.x", "team.a.special="),
        ("team.a.special", "team.a"),
    ],
)
def test_a_name_after_a_configured_key_opens_a_sandbox_of_that_key(key: str, owner: str) -> None:
    request = Request("GET", "/v1/chains", {b"authorization": f"Bearer {key}".encode()})
    keyring = Keyring(KEYS)
    expected = (sandbox_of(key), sandbox_of(owner))
    for _ in range(2):  # the second time from the cache
        keyring.authenticate(request)
        assert (request.sandbox, request.owner) == expected


@pytest.mark.parametrize("token", ["unauthenticated", "key-of-the-first-merchant-not", "Authorization:"])
def test_a_token_that_is_a_word_of_the_refusal(keyed_server: RunningServer, token: str) -> None:
    reply = get(keyed_server, f"Bearer {token}")
    assert (reply.status, reply.code) == UNAUTHENTICATED
    assert token.encode() not in reply.body.partition(b'"message"')[2]


def test_the_text_of_a_request_does_not_show_its_headers() -> None:
    assert "mk_test" not in repr(Request("GET", "/", {b"authorization": b"Bearer mk_test_demo"}))


@pytest.mark.parametrize("token", ["text/html", 'viewport"'])
def test_a_token_that_is_a_word_of_a_page_does_not_spoil_it(keyed_server: RunningServer, token: str) -> None:
    page = get(keyed_server, f"Bearer {token}", "/checkout/pay_unknown")
    assert (page.status, page.body) == (404, get(keyed_server, None, "/checkout/pay_unknown").body)


@pytest.mark.parametrize(
    ("bound", "allowed", "path", "host", "is_accepted"),
    [
        (None, "Sandbox.Example", "/livez", "sandbox.example", True),
        (None, "Sandbox.Example", "/livez", "localhost", True),
        (None, "Sandbox.Example", "/livez", "other.example", False),
        ("0.0.0.0", None, "/v1/chains", "any.example", True),
        ("0.0.0.0", "sandbox.example", "/openapi.yaml", "any.example", False),
        ("0.0.0.0", "sandbox.example", "/livez", "10.0.0.11:8402", True),
        ("0.0.0.0", "sandbox.example", "/readyz", "10.0.0.11:8402", True),
    ],
)
def test_hosts_are_those_of_the_settings_and_probes_beyond_loopback_may_name_any(
    bound: str | None, allowed: str | None, path: str, host: str, *, is_accepted: bool
) -> None:
    hosts = AllowedHosts(Address(bound, 8402, (allowed,) if allowed else ()))
    refused = nullcontext() if is_accepted else pytest.raises(PaymockError, match="Host")
    with refused:
        hosts.check(Request("GET", path, {b"host": host.encode()}))


def test_other_origins_may_not_read_what_the_control_api_says(api: Api) -> None:
    for path in ("/_mock/payments", "/_mock/nothing"):
        for reply in (api.head(path), _preflight(api, path, "POST")):
            assert not [name for name in reply.headers if name.startswith("access-control")]


@pytest.mark.parametrize(
    ("method", "path"),
    [
        ("GET", "/v1"),
        ("POST", "/v1/paymets"),
        ("PATCH", "/v1/payments/"),
        ("GET", "/v1/payments/x/y"),
        ("GET", "/checkout/x/y"),
    ],
)
def test_a_page_may_read_that_there_is_nothing_at_a_path(api: Api, method: str, path: str) -> None:
    preflight = _preflight(api, path, method)
    assert preflight.status == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert preflight.headers["access-control-allow-methods"] == method
    assert "authorization" in preflight.headers["access-control-allow-headers"].lower()
    assert "allow" not in preflight.headers
    reply = api.request(method, path)
    assert (reply.status_code, reply.headers["access-control-allow-origin"]) == (404, "*")
    assert api.options(path).status_code == 404


def test_a_page_may_read_that_a_method_is_not_allowed(api: Api) -> None:
    preflight = _preflight(api, "/v1/payments", "PUT")
    assert preflight.headers["access-control-allow-methods"] == "POST, OPTIONS, PUT"
    assert preflight.headers["allow"] == "POST, OPTIONS"
    reply = api.request("PUT", "/v1/payments")
    assert (reply.status_code, reply.headers["allow"]) == (405, "POST, OPTIONS")
    assert "Allow" in reply.headers["access-control-expose-headers"]


@pytest.mark.parametrize("method", ["GET, X", "(", "FOO", "G&touch$IFS'x'&", "get"])
def test_a_method_that_a_page_has_made_up_is_not_granted(api: Api, method: str) -> None:
    assert _preflight(api, "/v1/nothing", method).status == 404
    assert (
        _preflight(api, "/v1/chains", method).headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    )


@pytest.mark.parametrize(
    ("data", "status"),
    [
        (b"GET /v1/chains HTTP/1.1\r\nHost : localhost\r\n\r\n", 400),
        (b"POST /v1/payments HTTP/1.1\r\nHost: localhost\r\nTransfer-Encoding: chunked\r\n\r\nx\r\n", 400),
        (b"GET /v1/chains HTTP/1.1\r\nHost: localhost\r\nX: " + b"x" * 16_384 + b"\r\n\r\n", 431),
        (b"GET /v1/chains HTTP/1.1\r\nHost: localhost\r\n" + b"X: y\r\n" * 100 + b"\r\n", 431),
        (b"GET /v1/chains HTTP/1.1\r\n\r\n", 400),
        (b"GET /v1/chains HTTP/1.1\r\nHost: evil.example\r\n\r\n", 421),
    ],
)
def test_a_page_may_read_refusals_before_routing(server: RunningServer, data: bytes, status: int) -> None:
    for target, allowed in ((b" /v1/", True), (b" /_mock/", False)):
        [reply] = raw.exchange(server.port, data.replace(b" /v1/", target, 1))
        assert reply.status == status
        assert ("access-control-allow-origin" in reply.headers) == allowed


@pytest.mark.parametrize("path", ["/openapi.yaml", "/_mock/openapi.yaml"])
def test_viewers_of_any_origin_may_load_the_documents(api: Api, path: str) -> None:
    assert api.get(path).headers["access-control-allow-origin"] == "*"
    assert _preflight(api, path, "GET").headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"


@pytest.mark.parametrize("path", ["/livez", "/swagger/"])
def test_other_paths_are_for_their_own_origin(api: Api, path: str) -> None:
    assert "access-control-allow-origin" not in api.get(path).headers
    assert api.options(path).headers["allow"] == "GET, HEAD, OPTIONS"


def _preflight(api: Api, path: str, method: str) -> raw.RawReply:
    """The reply to a preflight request, which has no API key."""
    headers = {"Origin": "https://shop.example", "Access-Control-Request-Method": method}
    headers["Access-Control-Request-Headers"] = "authorization,content-type,idempotency-key,x-mock-scenario"
    [reply] = raw.exchange(api.base_url.port or 80, raw.request("OPTIONS", path, headers))
    return reply
