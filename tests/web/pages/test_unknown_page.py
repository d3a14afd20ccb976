"""What a browser, and what a program, gets where there is no page."""

import re

import httpx
import pytest

from paymock.settings import Settings
from tests.support.client import error_of
from tests.support.server import RunningServer, running_server

BROWSER = "text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8"


def get(server: RunningServer, path: str, accept: str = BROWSER, method: str = "GET") -> httpx.Response:
    return httpx.request(method, server.url + path, headers={"Accept": accept})


def links(reply: httpx.Response) -> list[str]:
    return re.findall(r'<a href="(.*?)"', reply.text)


@pytest.mark.parametrize("path", ["/payment", "/_mock/nothing", "/swagger/x", "/<script>", "/v10"])
def test_a_browser_gets_a_page_that_leads_on(server: RunningServer, path: str) -> None:
    reply = get(server, path)
    assert (reply.status_code, reply.headers["content-type"]) == (404, "text/html; charset=utf-8")
    assert reply.headers["content-security-policy"].startswith("default-src 'none'; ")
    assert "<script" not in reply.text
    assert f"<code>{reply.url.raw_path.decode()}</code>" in reply.text
    assert links(reply)[0] == "/"
    assert {httpx.get(server.url + link).status_code for link in links(reply)} == {200}
    head = get(server, path, method="HEAD")
    assert (head.status_code, head.headers["content-length"]) == (404, reply.headers["content-length"])


def test_without_the_dashboard_it_leads_to_what_there_is() -> None:
    with running_server(Settings(port=0, control=False)) as server:
        reply = get(server, "/")
        assert (reply.status_code, links(reply)) == (404, ["/swagger/", "/openapi.yaml", "/llms.txt"])
        assert "The dashboard is off" in reply.text
        assert error_of(get(server, "/", "*/*")) == (404, "not_found")
        assert "`/llms.txt`" in get(server, "/", "*/*").text


def test_programs_and_other_methods_and_paths_below_v1_get_json(server: RunningServer) -> None:
    for accept in ("*/*", "", "application/json, text/html", "text/*"):  # HTML is not preferred
        assert error_of(get(server, "/payment", accept)) == (404, "not_found")
    for path in ("/v1", "/v1/", "/v1/refunds"):
        assert error_of(get(server, path)) == (404, "not_found")
    assert error_of(get(server, "/payment", method="POST")) == (404, "not_found")
