"""Static files: scripts and styles of the pages, and Swagger UI. The pages name theirs by an address that
changes with them; Swagger UI, which is no template, by one that does not.
"""

import gzip
from collections.abc import Mapping
from functools import lru_cache
from pathlib import Path

from msgspec import Struct

from paymock.http.requests import Request
from paymock.http.responses import Response
from paymock.web.pages.templating import static_path

SWAGGER = "/swagger/"
SWAGGER_CONTROL = "/swagger/control/"
SWAGGER_POLICY = (
    "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; "
    "connect-src 'self'; base-uri 'none'; form-action 'none'; frame-ancestors 'none'"
)

_TYPES = {
    "css": "text/css; charset=utf-8",
    "html": "text/html; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "png": "image/png",
    "svg": "image/svg+xml",
}
_FOLDER = Path(__file__).with_name("static")
_REVALIDATED = ("Cache-Control", "no-cache")
_KEPT = ("Cache-Control", "max-age=31536000, immutable")
_DOCUMENTS = b"""<nav class="documents" aria-label="Pages">
      <a href="/">Dashboard</a>
      <a href="/swagger/">The service, /v1</a>
      <a href="/swagger/control/">The control API, /_mock</a>
    </nav>"""
_SWAGGER_FILES = (
    "paymock.js",
    "paymock.css",
    "swagger-ui.css",
    "swagger-ui-bundle.js",
    "favicon-32x32.png",
)


class StaticFile(Struct, frozen=True):
    """A file below the folder `static`, and its headers. In an HTML file, `documents` replaces the
    placeholder for the list of documents.
    """

    path: str
    headers: tuple[tuple[str, str], ...] = (_REVALIDATED,)
    documents: bytes = b""

    async def __call__(self, request: Request) -> Response:
        """Answer with the file."""
        body = _FOLDER.joinpath(*self.path.split("/")).read_bytes()
        extension = self.path.rpartition(".")[2]
        if extension == "html":
            body = body.replace(b"<!-- documents -->", self.documents)
        headers = self.headers
        if _accepts_gzip(request):
            body, headers = _compressed(body), (*headers, ("Content-Encoding", "gzip"))
        return Response(200, body, _TYPES[extension], (*headers, ("Vary", "Accept-Encoding")))


def static_files(*, with_control: bool) -> Mapping[str, StaticFile]:
    """Return every static file by its URL path. `with_control`: Swagger UI also shows the control API."""
    names = sorted(file.name for file in _FOLDER.joinpath("pages").iterdir())
    swagger_headers = (("Content-Security-Policy", SWAGGER_POLICY), _REVALIDATED)
    index = StaticFile("swagger/index.html", swagger_headers, _DOCUMENTS if with_control else b"")
    return {
        **{f"/assets/{name}": StaticFile(f"pages/{name}") for name in names},
        **{f"{static_path()}/{name}": StaticFile(f"pages/{name}", (_KEPT,)) for name in names},
        **{SWAGGER + name: StaticFile(f"swagger/{name}", swagger_headers) for name in _SWAGGER_FILES},
        SWAGGER: index,
        **({SWAGGER_CONTROL: index} if with_control else {}),
    }


def _accepts_gzip(request: Request) -> bool:
    """Whether a list of codings, as browsers send it, has gzip. Any other form gets the file as it is."""
    codings = request.headers.get(b"accept-encoding", b"").lower().split(b",")
    return b"gzip" in (coding.strip() for coding in codings)


@lru_cache(maxsize=64)
def _compressed(body: bytes) -> bytes:
    return gzip.compress(body, mtime=0)


async def redirect_to_swagger(request: Request) -> Response:
    """Redirect `/swagger` to the page."""
    return Response(308, content_type=None, headers=(("Location", SWAGGER),))
