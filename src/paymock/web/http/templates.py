"""HTML templates. All values are escaped: what a merchant wrote is text, never markup."""

from functools import cache
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from jinja2 import Environment

HTML = "text/html; charset=utf-8"
_OWN_FILES = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; connect-src 'self'"


def render(template: str, **values: object) -> bytes:
    """Return the HTML of a template with these values."""
    return _environment().get_template(template).render(values).encode()


def security_headers(frame_ancestors: str = "'none'") -> tuple[tuple[str, str], ...]:
    """Return the headers that restrict a page to its own files, without inline scripts and styles, and limit
    the sites that may embed it.

    Other sites get no referrer, since the address of a checkout is a secret of its customer.
    """
    content = f"{_OWN_FILES}; base-uri 'none'; form-action 'none'; frame-ancestors {frame_ancestors}"
    return (("Content-Security-Policy", content), ("Referrer-Policy", "no-referrer"))


@cache
def _environment() -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # imported when the first page is opened

    return Environment(
        loader=PackageLoader("paymock.web.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
