"""HTML templates. All values are escaped: what a merchant wrote is text, never markup."""

import hashlib
import re
from collections.abc import Iterator
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING

from paymock.payments.checkout import VIEWS
from paymock.text import BIDIRECTIONAL, format_seconds

if TYPE_CHECKING:
    from jinja2 import Environment
    from markupsafe import Markup

HTML = "text/html; charset=utf-8"
_OWN_FILES = "default-src 'none'; script-src 'self'; style-src 'self'; connect-src 'self'"
_BIDIRECTIONAL = re.compile(f"[{BIDIRECTIONAL}]")
_STATIC = Path(__file__).parent / "static" / "pages"
_LONG = 20
"""The longest id that is shown whole."""

_UNITS = (("d", 86_400, "h", 3600), ("h", 3600, "min", 60), ("min", 60, "s", 1))


def render(template: str, root: str, **values: object) -> bytes:
    """Return a page whose links to this server begin with `root`."""
    return "".join(parts(template, root, **values)).encode()


def parts(template: str, root: str, **values: object) -> Iterator[str]:
    """Yield the parts of what `render` returns."""
    page = environment(root).get_template(template)
    context = page.new_context(values)
    yield from page.root_render_func(context)
    context.vars.clear()  # its macros refer to it: all values would be kept until the next collection


def security_headers(frame_ancestors: str = "'none'", images: str = "'self'") -> tuple[tuple[str, str], ...]:
    """Return the headers that restrict a page to its own files and such `images`, without inline scripts and
    styles, and limit the sites that may embed it. Other sites get no referrer, since the address of a
    checkout is a secret of its customer.
    """
    sources = f"{_OWN_FILES}; img-src {images}"
    content = f"{sources}; base-uri 'none'; form-action 'none'; frame-ancestors {frame_ancestors}"
    return (("Content-Security-Policy", content), ("Referrer-Policy", "no-referrer"))


@cache
def static_path() -> str:
    """The address of scripts and styles. It changes with them: browsers keep them without asking again."""
    digest = hashlib.sha256()
    for file in sorted(_STATIC.iterdir()):
        digest.update(file.read_bytes())
    return f"/assets/{digest.hexdigest()[:12]}"


def visible(text: str) -> "Markup":
    """Return `text` as HTML, with the code points of bidirectional control characters in their place, so that
    it cannot pretend to be another text.
    """
    from markupsafe import Markup, escape

    escaped = str(escape(text))
    shown = _BIDIRECTIONAL.sub(lambda one: f'<span class="control">U+{ord(one[0]):04X}</span>', escaped)
    return Markup(shown)  # noqa: S704 - escaped


def breakable(name: str) -> "Markup":
    from markupsafe import Markup

    return Markup("_<wbr>").join(name.split("_"))


def short(identifier: str) -> str:
    return identifier if len(identifier) <= _LONG else f"{identifier[:10]}…{identifier[-6:]}"


def count(number: int, noun: str) -> str:
    """Return how many there are: `1,200 reads`."""
    return f"{number:,} {noun}{'' if number == 1 else 's'}"


def duration(seconds: float) -> str:
    """Return seconds for people: `12 s`, `4 min 5 s`. The scripts of the pages have the same."""
    whole = int(seconds)
    if seconds < 10:
        return f"{format_seconds(int(seconds * 10) / 10)} s"
    if whole < 60:
        return f"{whole} s"
    larger, size, smaller, rest = next(unit for unit in _UNITS if whole >= unit[1])
    return f"{whole // size} {larger} {whole % size // rest} {smaller}"


@cache
def environment(root: str) -> "Environment":
    from jinja2 import Environment, PackageLoader, StrictUndefined  # imported when the first page is opened

    environment = Environment(
        loader=PackageLoader("paymock.web.pages"),
        autoescape=True,
        undefined=StrictUndefined,
        trim_blocks=True,
        lstrip_blocks=True,
    )
    # what macros need: with the context of a page they would keep its data until the next collection
    environment.globals |= {"root": root, "static": root + static_path(), "views": VIEWS}
    environment.filters["seconds"] = format_seconds
    for function in (visible, breakable, short, duration, count):
        environment.filters[function.__name__] = function
    return environment
