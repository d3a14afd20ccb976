import httpx

from paymock import __version__
from tests.support.client import Api, error_of


def test_webhook_endpoints_are_listed_in_the_order_of_their_creation(api: Api) -> None:
    urls = [f"https://merchant.example/{number}" for number in range(3)]
    for url in urls:
        api.create({"url": url}, path="/v1/webhooks")
    assert [endpoint["url"] for endpoint in api.get("/v1/webhooks").json()["data"]] == urls


def test_a_sandbox_has_at_most_a_hundred_webhook_endpoints(api: Api) -> None:
    def create(number: int) -> httpx.Response:
        body = {"url": f"https://merchant.example/{number}"}
        return api.create(body, key=f"endpoint-{number}", path="/v1/webhooks")

    assert {create(number).status_code for number in range(100)} == {201}
    assert error_of(create(100)) == (503, "capacity_exceeded")
    assert create(7).status_code == 201  # a replay
    assert len(api.get("/v1/webhooks").json()["data"]) == 100


def test_health_needs_no_key(api: Api) -> None:
    for path in ("/livez", "/readyz"):
        response = api.get(path, headers={"Authorization": ""})
        assert (response.status_code, response.json()) == (200, {"status": "ok", "version": __version__})
