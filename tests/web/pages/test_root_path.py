"""Behind a proxy, under a path: every link leads to the server."""

import re
from collections.abc import Iterator

import httpx
import pytest

from paymock.settings import Settings
from tests.support.client import AUTHORIZED, ORDER, fresh_key
from tests.support.server import running_server

ROOT = "/tools/paymock"
PAGES = (
    *("/", "/requests", "/faults", "/payments/{}", "/checkout/{}", "/checkout/nope"),
    *("/swagger/", "/fragments/payments", "/fragments/payments/{}"),
)


@pytest.fixture(scope="module")
def client() -> Iterator[httpx.Client]:
    settings = Settings(port=0, root_path=ROOT)
    with running_server(settings) as server, httpx.Client(base_url=server.url, headers=AUTHORIZED) as client:
        yield client


@pytest.fixture(scope="module")
def created(client: httpx.Client) -> httpx.Response:
    headers = {"Idempotency-Key": fresh_key()}
    return client.post(f"{ROOT}/v1/payments", json=ORDER, headers=headers)


@pytest.mark.parametrize("page", PAGES)
def test_links_of_a_page_lead_below_the_path(
    client: httpx.Client, created: httpx.Response, page: str
) -> None:
    client.headers["Accept"] = "text/html"
    text = client.get(ROOT + page.format(created.json()["id"])).text
    links = {link.partition("#")[0] for link in re.findall('(?:href|src)="(/[^"]*)"', text)}
    assert links or "fragments" in page
    assert {link: client.get(link).status_code for link in links} == dict.fromkeys(links, 200)
    assert all(link.startswith(f"{ROOT}/") for link in links)


def test_headers_and_documents_name_the_path(client: httpx.Client, created: httpx.Response) -> None:
    payment_id = created.json()["id"]
    assert created.headers["location"] == f"{ROOT}/v1/payments/{payment_id}"
    assert f"<{ROOT}/checkout/{payment_id}>" in created.headers["link"]
    assert f"- url: {str(client.base_url).rstrip('/')}{ROOT}\n" in client.get("/openapi.yaml").text
    assert f"{str(client.base_url).rstrip('/')}{ROOT}/v1/payments" in client.get("/llms.txt").text
    assert client.get("/").headers["link"].startswith(f'<{ROOT}/llms.txt>; rel="describedby"')
    assert client.get(f"{ROOT}/swagger").headers["location"] == f"{ROOT}/swagger/"


@pytest.mark.parametrize(
    ("path", "status"), [("", 200), (ROOT, 200), (f"{ROOT}/livez", 200), ("/livez", 200), (f"{ROOT}x", 404)]
)
def test_proxy_may_remove_the_path_or_not(client: httpx.Client, path: str, status: int) -> None:
    assert client.get(path).status_code == status


def test_path_may_be_one_of_the_server_too() -> None:
    with running_server(Settings(port=0, root_path="/v1")) as server:
        for path in ("/v1/chains", "/v1/v1/chains", "/v1/livez", "/livez"):
            assert httpx.get(server.url + path, headers=AUTHORIZED).status_code == 200
