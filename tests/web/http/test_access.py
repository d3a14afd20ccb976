"""API keys, sandboxes, hosts, origins and paths: who gets in, and to what."""

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


@pytest.mark.parametrize(
    "host", ["localhost", "LOCALHOST", "127.0.0.1", "[::1]", "localhost:1", "127.0.0.1:8402"]
)
def test_a_server_on_loopback_answers_to_its_names(shared_server: RunningServer, host: str) -> None:
    [reply] = raw.exchange(shared_server.port, raw.request("GET", "/livez", host=host))
    assert reply.status == 200


@pytest.mark.parametrize(
    "host", ["attacker.example", "127.0.0.1.attacker.example", "[::2]", "10.0.0.1", "localhost."]
)
def test_a_server_on_loopback_answers_to_no_other_name(shared_server: RunningServer, host: str) -> None:
    [reply] = raw.exchange(shared_server.port, raw.request("GET", "/livez", host=host))
    assert (reply.status, reply.code) == (421, "misdirected_request")


def test_further_hosts_can_be_allowed() -> None:
    with running_server(Settings(port=0, allowed_hosts=("Sandbox.Example",))) as server:
        statuses = [
            raw.exchange(server.port, raw.request("GET", "/livez", host=host))[0].status
            for host in ("sandbox.example", "localhost", "other.example")
        ]
    assert statuses == [200, 200, 421]


def test_a_server_bound_elsewhere_answers_to_any_host_unless_told_which() -> None:
    with running_server(Settings(host="0.0.0.0", port=0, api_keys=KEYS)) as server:
        [reply] = raw.exchange(server.port, raw.request("GET", "/livez", host="any.example"))
        assert reply.status == 200
    named = Settings(host="0.0.0.0", port=0, api_keys=KEYS, allowed_hosts=("sandbox.example",))
    with running_server(named) as server:
        [reply] = raw.exchange(server.port, raw.request("GET", "/openapi.yaml", host="any.example"))
        assert reply.status == 421


@pytest.mark.parametrize("path", ["/livez", "/readyz"])
def test_a_server_bound_elsewhere_answers_probes_of_its_address(path: str) -> None:
    named = Settings(host="0.0.0.0", port=0, api_keys=KEYS, allowed_hosts=("sandbox.example",))
    with running_server(named) as server:
        [reply] = raw.exchange(server.port, raw.request("GET", path, host="10.0.0.11:8402"))
        assert reply.status == 200


@pytest.mark.parametrize(
    "path",
    ["/v1/chains/", "/v1//chains", "//v1/chains", "/v1", "/V1/chains", "/v1/%63hains", "/v1/chains;x=1",
     "/v2/chains",
     "/v1/payments/", "/v1/payments//attempts", "/v1/chains//assets", "/openapi.yaml/", "/swagger/index.html",
     "/swagger/..%2f..%2fpyproject.toml", "/.env", "/v1/payments/x/attempts/y"],
)  # fmt: skip
def test_paths_are_exact(api: Api, path: str) -> None:
    assert error_of(api.get(path)) == (404, "not_found")


def test_a_query_string_changes_nothing(api: Api) -> None:
    assert api.get("/v1/chains?limit=1&x=%00").content == api.get("/v1/chains").content


def test_only_swagger_without_its_slash_is_redirected(api: Api) -> None:
    response = api.get("/swagger")
    assert (response.status_code, response.headers["location"]) == (308, "/swagger/")


@pytest.mark.parametrize(
    ("method", "path", "allow"),
    [
        ("PUT", "/v1/payments", "POST, OPTIONS"),
        ("GET", "/v1/payments", "POST, OPTIONS"),
        ("DELETE", "/v1/payments/pay_x", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/payments/pay_x/attempts", "GET, HEAD, OPTIONS"),
        ("PATCH", "/v1/webhooks", "POST, GET, HEAD, OPTIONS"),
        ("TRACE", "/v1/chains", "GET, HEAD, OPTIONS"),
        ("POST", "/v1/chains/bsc/assets", "GET, HEAD, OPTIONS"),
        ("POST", "/openapi.yaml", "GET, HEAD, OPTIONS"),
        ("POST", "/livez", "GET, HEAD, OPTIONS"),
    ],
)
def test_a_method_that_a_path_does_not_know_is_refused(api: Api, method: str, path: str, allow: str) -> None:
    response = api.request(method, path)
    assert error_of(response) == (405, "method_not_allowed")
    assert response.headers["allow"] == allow


def test_a_page_of_any_origin_may_call_the_api(api: Api) -> None:
    preflight = httpx.options(
        api.base_url.join("/v1/payments"),
        headers={
            "Origin": "https://shop.example",
            "Access-Control-Request-Method": "POST",
            "Access-Control-Request-Headers": "authorization,content-type,idempotency-key,x-mock-scenario",
        },
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert preflight.headers["access-control-allow-methods"] == "POST, OPTIONS"
    assert preflight.headers["access-control-allow-headers"] == (
        "Authorization, Content-Type, Idempotency-Key, X-Mock-Scenario, X-Mock-Fault"
    )
    for response in (api.create(), api.get("/v1/payments/pay_unknown")):
        assert response.headers["access-control-allow-origin"] == "*"
        assert response.headers["access-control-expose-headers"] == (
            "Idempotent-Replayed, Retry-After, X-Request-Id, Location, Link"
        )
        assert "access-control-allow-credentials" not in response.headers


@pytest.mark.parametrize("path", ["/checkout/{}.json", "/checkout/{}/events", "/checkout/pay_unknown.json"])
def test_a_page_of_any_origin_may_show_a_checkout(api: Api, path: str) -> None:
    path = path.format(api.created()["id"])
    origin = {"Origin": "https://shop.example"}
    preflight = httpx.options(
        api.base_url.join(path), headers={**origin, "Access-Control-Request-Method": "GET"}
    )
    assert preflight.status_code == 204
    assert preflight.headers["access-control-allow-origin"] == "*"
    assert preflight.headers["access-control-allow-methods"] == "GET, HEAD, OPTIONS"
    response = httpx.head(api.base_url.join(path), headers=origin)
    assert response.headers["access-control-allow-origin"] == "*"
    assert "access-control-allow-credentials" not in response.headers


def test_other_origins_may_not_read_what_the_control_api_says(api: Api) -> None:
    for path in ("/_mock/payments", "/_mock/events"):
        assert "access-control-allow-origin" not in api.head(path).headers
        assert "access-control-allow-methods" not in api.options(path).headers


@pytest.mark.parametrize("path", ["/livez", "/openapi.yaml", "/swagger/"])
def test_other_paths_are_for_their_own_origin(api: Api, path: str) -> None:
    assert "access-control-allow-origin" not in api.get(path).headers
    assert api.options(path).headers["allow"] == "GET, HEAD, OPTIONS"


def test_every_request_has_an_id_of_its_own(api: Api) -> None:
    ids = [
        api.get(path).headers["x-request-id"] for path in ("/v1/chains", "/nowhere", "/livez", "/swagger/")
    ]
    assert len(set(ids)) == 4
