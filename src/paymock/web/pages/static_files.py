"""The scripts, the style and the icon of the pages: files of the package, nothing from anywhere else."""

from importlib.resources import files

from paymock.web.http.requests import Request
from paymock.web.http.responses import Response

_TYPES = {
    "css": "text/css; charset=utf-8",
    "js": "text/javascript; charset=utf-8",
    "svg": "image/svg+xml",
}
_FOLDER = files("paymock.web.pages").joinpath("static", "pages")


def paths() -> list[str]:
    """Where the files are served."""
    return sorted(f"/assets/{file.name}" for file in _FOLDER.iterdir())


async def asset(request: Request) -> Response:
    """One of the files."""
    name = request.path.rpartition("/")[2]
    return Response(
        200,
        _FOLDER.joinpath(name).read_bytes(),
        _TYPES[name.rpartition(".")[2]],
        (("Cache-Control", "no-cache"),),
    )
