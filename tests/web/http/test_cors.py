"""Requests from pages of other origins."""

import httpx
import pytest

from tests.support.client import Api


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
            "Idempotent-Replayed, Retry-After, X-Request-Id, Location, Link, X-Mock-Warning"
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
