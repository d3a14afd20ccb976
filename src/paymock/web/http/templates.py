"""HTML from templates. Whatever a merchant wrote is text in them, never markup."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

HTML = "text/html; charset=utf-8"
_OWN_FILES = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"


def rendered(template: str, **values: object) -> bytes:
    """The page that a template makes of these values."""
    return _environment().get_template(template).render(values).encode()


def policy(frame_ancestors: str = "'none'") -> tuple[tuple[str, str], ...]:
    """The header lines of a page: nothing but its own files, no inline script or style, and who may embed it.

    The address of a checkout is a secret of its customer, so no other site is told it.
    """
    content = f"{_OWN_FILES}; base-uri 'none'; form-action 'none'; frame-ancestors {frame_ancestors}"
    return (("Content-Security-Policy", content), ("Referrer-Policy", "no-referrer"))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # a server without pages open needs none

    return Environment(
        loader=PackageLoader("paymock.web.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
