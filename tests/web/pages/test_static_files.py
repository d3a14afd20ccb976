import gzip
import re
from importlib.resources import files

import httpx
import pytest

from paymock.web.pages.handlers import PAGES
from paymock.web.pages.templating import static_path
from tests.support.server import RunningServer
from tests.web.pages.sandbox import Sandbox

FOLDER = files("paymock.web.pages").joinpath("static", "pages")
NAMES = sorted(file.name for file in FOLDER.iterdir())
TYPES = {"js": "text/javascript; charset=utf-8", "css": "text/css; charset=utf-8", "svg": "image/svg+xml"}
MOST_BYTES = 70_000


def imports_of(name: str) -> set[str]:
    text = FOLDER.joinpath(name).read_text("utf-8")
    return {*re.findall(r"""(?:\bfrom|\bimport)\s*\(?\s*["']([^"']+)["']""", text)}


def test_scripts_and_styles_of_all_pages_are_small() -> None:
    assert sum(len(FOLDER.joinpath(name).read_bytes()) for name in NAMES) < MOST_BYTES


@pytest.mark.parametrize("name", NAMES)
def test_a_script_imports_only_its_neighbors(name: str) -> None:
    assert imports_of(name) <= {f"./{other}" for other in NAMES}


@pytest.mark.parametrize("name", NAMES)
def test_files_are_served_plain_or_compressed(server: RunningServer, name: str) -> None:
    content = FOLDER.joinpath(name).read_bytes()
    for folder, cached in (("/assets", "no-cache"), (static_path(), "max-age=31536000, immutable")):
        with httpx.Client(base_url=server.url) as client:
            reply = client.get(f"{folder}/{name}", headers={"Accept-Encoding": "identity"})
            assert reply.content == content
            assert reply.headers["cache-control"] == cached
            assert reply.headers["content-type"] == TYPES[name.rpartition(".")[2]]
            assert reply.headers["x-content-type-options"] == "nosniff"
            with client.stream("GET", f"{folder}/{name}", headers={"Accept-Encoding": "gzip"}) as reply:
                assert reply.headers["content-encoding"] == "gzip"
                assert gzip.decompress(b"".join(reply.iter_raw())) == content


@pytest.mark.parametrize("path", PAGES)
def test_modules_that_all_pages_share_are_fetched_at_once(server: RunningServer, path: str) -> None:
    needed, waiting = {"./shell.js"}, ["shell.js"]
    while waiting:
        new = imports_of(waiting.pop()) - needed
        needed |= new
        waiting += [name.removeprefix("./") for name in new]
    links = re.findall(
        '<link rel="modulepreload" href="(.*?)">',
        httpx.get(server.url + path.format(payment_id="nope"), headers={"Accept": "text/html"}).text,
    )
    assert sorted(links) == sorted(f"{static_path()}/{name.removeprefix('./')}" for name in needed)


@pytest.mark.parametrize("path", [*PAGES, "/checkout/{payment_id}", "/checkout/nope", "/swagger/"])
def test_page_may_load_what_this_server_has_and_nothing_else(api: Sandbox, path: str) -> None:
    path = path.format(payment_id=api.created()["id"])
    headers = httpx.get(f"{api.base_url}{path}", headers={"Accept": "text/html"}).headers
    is_swagger = path == "/swagger/"
    assert {*headers["content-security-policy"].split("; ")} == {
        *("default-src 'none'", "base-uri 'none'", "form-action 'none'", "frame-ancestors 'none'"),
        *("script-src 'self'", "style-src 'self'", "connect-src 'self'"),
        "img-src 'self' data:" if is_swagger else "img-src 'self'",
    }
    assert headers["x-content-type-options"] == "nosniff"
    assert headers["cache-control"] == ("no-cache" if is_swagger else "no-store")
    assert headers.get("referrer-policy") == (None if is_swagger else "no-referrer")
