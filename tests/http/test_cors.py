import pytest

from tests.support import raw
from tests.support.client import Api
from tests.support.server import RunningServer


def test_other_origins_may_not_read_what_the_control_api_says(api: Api) -> None:
    for path in ("/_mock/payments", "/_mock/events", "/_mock/nothing"):
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
