"""What the pages are made of: a few small files of this server, and what they may do."""

import gzip
import re
from importlib.resources import files

import httpx
import pytest
from playwright.sync_api import BrowserContext

from paymock.web.http.templates import static_path
from tests.support.browser import INJECTIONS, Visit
from tests.support.server import RunningServer
from tests.web.pages.steps import Sandbox, Tab

FOLDER = files("paymock.web.pages").joinpath("static", "pages")
NAMES = sorted(file.name for file in FOLDER.iterdir())
TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
MOST_BYTES = 60_000


def test_scripts_and_styles_of_all_pages_are_small() -> None:
    assert sum(len(FOLDER.joinpath(name).read_bytes()) for name in NAMES) < MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_file_is_sent_compressed_to_those_who_take_it(server: RunningServer, name: str) -> None:
    with httpx.stream("GET", f"{server.url}/assets/{name}", headers={"Accept-Encoding": "gzip"}) as reply:
        assert reply.headers["content-encoding"] == "gzip"
        sent = b"".join(reply.iter_raw())
    assert gzip.decompress(sent) == FOLDER.joinpath(name).read_bytes()


def test_second_visit_asks_for_no_file_again(tab: Tab, api: Sandbox) -> None:
    def sizes() -> set[int]:
        found = tab.page.evaluate(
            """() => performance.getEntriesByType("resource")
                .filter(({ name }) => name.includes("/assets/")).map(({ transferSize }) => transferSize)"""
        )
        return {*found}

    tab.open(f"/payments/{api.created()['id']}").page.wait_for_load_state("load")
    assert sizes()
    assert 0 not in sizes()
    tab.open("/").open(f"/payments/{api.created(order_id='order-2')['id']}").page.wait_for_load_state("load")
    assert sizes() == {0}


@pytest.mark.parametrize("path", ["/", "/payments/{}", "/requests"])
def test_modules_are_fetched_at_once_and_none_in_vain(tab: Tab, api: Sandbox, path: str) -> None:
    tab.open(path.format(api.created()["id"])).page.wait_for_load_state("load")
    links = tab.page.locator("link[rel=modulepreload]").evaluate_all("links => links.map(link => link.href)")
    imported = {f"{tab.origin}{static_path()}/{name}" for name in imports_of("shell.js")}
    assert {*links} == {f"{tab.origin}{static_path()}/shell.js", *imported}


def imports_of(name: str) -> set[str]:
    """The modules that a module imports, itself or through others."""
    found: set[str] = set()
    waiting = [name]
    while waiting:
        text = FOLDER.joinpath(waiting.pop()).read_text("utf-8")
        new = {*re.findall(r'from "\./([a-z]+\.js)"', text)} - found
        found |= new
        waiting += new
    return found


@pytest.mark.parametrize("name", [name for name in NAMES if name.endswith(".js")])
def test_script_imports_its_neighbors_and_nothing_else(name: str) -> None:
    text = FOLDER.joinpath(name).read_text("utf-8")
    imported = re.findall(r"""(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']""", text)
    assert {*imported} <= {f"./{other}" for other in NAMES}


@pytest.mark.parametrize("name", NAMES)
@pytest.mark.parametrize(
    ("folder", "cached"), [("/assets", "no-cache"), (static_path(), "max-age=31536000, immutable")]
)
def test_file_is_served_as_it_is(server: RunningServer, folder: str, cached: str, name: str) -> None:
    reply = httpx.get(f"{server.url}{folder}/{name}")
    assert reply.headers["cache-control"] == cached
    assert reply.content == FOLDER.joinpath(name).read_bytes()
    assert reply.headers["content-type"] == TYPES[name.rpartition(".")[2]]
    assert reply.headers["x-content-type-options"] == "nosniff"


@pytest.mark.parametrize("path", ["/", "/payments/nope", "/requests", "/checkout/{}", "/checkout/nope"])
def test_page_may_load_what_this_server_has_and_nothing_else(api: Sandbox, path: str) -> None:
    reply = httpx.get(f"{api.base_url}{path.format(api.created()['id'])}")
    policy = reply.headers["content-security-policy"]
    assert {name: sources for name, *sources in map(str.split, policy.split(";"))} == {
        "default-src": ["'none'"],
        "script-src": ["'self'"],
        "style-src": ["'self'"],
        "img-src": ["'self'"],
        "connect-src": ["'self'"],
        "base-uri": ["'none'"],
        "form-action": ["'none'"],
        "frame-ancestors": ["'none'"],
    }
    assert reply.headers["x-content-type-options"] == "nosniff"
    assert reply.headers["referrer-policy"] == "no-referrer"
    assert reply.headers["cache-control"] == "no-store"


@pytest.mark.parametrize("path", ["/", "/payments/{}", "/requests", "/checkout/{}"])
def test_page_is_made_of_files_of_this_server(tab: Tab, api: Sandbox, path: str) -> None:
    path = path.format(api.created()["id"])
    tab.open(path).page.wait_for_load_state("load")
    own = tuple(f"{tab.origin}{start}" for start in (path, "/assets/", "/fragments/", "/_mock/"))
    assert [url for url in tab.requested if not url.startswith(own)] == []
    assert f"{tab.origin}{static_path()}/paymock.css" in tab.requested


@pytest.mark.parametrize("path", ["/", "/checkout/{}"])
def test_policy_stops_what_an_injection_would_try(
    context: BrowserContext, api: Sandbox, server: RunningServer, path: str
) -> None:
    visit = Visit(context.new_page(), server.url)
    visit.page.goto(server.url + path.format(api.created()["id"]))
    for attempt in INJECTIONS.values():
        visit.page.evaluate(attempt)
    violations = {text for text in visit.complaints() if text.startswith("violates ")}
    assert violations == {f"violates {directive}" for directive in INJECTIONS}
