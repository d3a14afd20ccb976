"""Routing of exact paths. The path template of a route, such as `/v1/chains/{chain}/assets`, matches no other
paths, not even with a trailing slash. Segments are compared as they were sent; only the values of parameters
are percent-decoded. A parameter may have a fixed suffix, as in `{id}.json`.
"""

from collections.abc import Awaitable, Callable, Mapping
from difflib import get_close_matches
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from msgspec import Struct

from paymock.http.requests import Request
from paymock.http.responses import Response

T = TypeVar("T")

PUBLIC, CONTROL = "/v1/", "/_mock/"
"""Paths below these need an API key."""

METHODS = ("GET", "HEAD", "POST", "PUT", "PATCH", "DELETE", "OPTIONS")
"""The methods that clients of an API use. Each path has some of them."""

CHECKOUT = "/checkout/"
"""Paths below this need the id of a payment."""

Handler = Callable[[Request], Awaitable[Response]]


class Route(NamedTuple):
    """A handler, whether it needs an API key, and the id of its operation."""

    handler: Handler
    needs_key: bool = False
    operation: str = ""


class Match(Struct, Generic[T], frozen=True):
    """The template of a path, its targets by method, and the values of its parameters by name."""

    template: str
    targets: Mapping[str, T]
    params: Mapping[str, str]


class _Node(Generic[T]):
    def __init__(self) -> None:
        self.children: dict[str, _Node[T]] = {}
        """The next nodes by fixed segment."""

        self.parameters: dict[str, tuple[str, _Node[T]]] = {}
        """The names of parameters and their nodes by suffix, the longest suffix first."""

        self.only: tuple[str, _Node[T]] | None = None
        """The parameter and its node, if there is no other and it has no suffix."""

        self.template = ""
        self.targets: dict[str, T] = {}


class Routes(Generic[T]):
    """A tree of path segments, made of a table of targets by method and template: `GET /v1/chains`.
    Dictionaries of the paths without parameters, and of the nodes that such paths lead to, save most of the
    search.
    """

    def __init__(self, table: Mapping[str, T]) -> None:
        self._root: _Node[T] = _Node()
        self._exact: dict[str, Match[T]] = {}
        self._fixed: dict[str, _Node[T]] = {}
        self.templates = [*dict.fromkeys(route.partition(" ")[2] for route in table)]
        """The path templates in the order of the table."""

        for route, target in table.items():
            method, _, template = route.partition(" ")
            node, path = self._root, ""
            for number, segment in enumerate(template.split("/")):
                path += f"/{segment}" if number else segment
                if segment.startswith("{"):
                    name, _, suffix = segment[1:].partition("}")
                    node.parameters.setdefault(suffix, (name, _Node()))
                    node.parameters = dict(sorted(node.parameters.items(), key=lambda item: -len(item[0])))
                    node.only = node.parameters[""] if [*node.parameters] == [""] else None
                    _, node = node.parameters[suffix]
                else:
                    node = node.children.setdefault(segment, _Node())
                if "{" not in path:
                    self._fixed[path] = node
            node.template = template
            node.targets[method] = target
            if "{" not in template:
                self._exact[template] = Match(template, node.targets, {})

    def similar(self, path: str) -> str | None:
        """Return the template of the operation that an unknown path is probably meant for."""
        sent, prefix = path.rstrip("/").split("/"), CONTROL if path.startswith(CONTROL) else PUBLIC
        for template in self.templates:
            known = template.removeprefix(prefix).split("/")
            pairs = zip(known, sent[-len(known) :], strict=False)
            is_near = all(name[:1] == "{" or get_close_matches(segment, [name]) for name, segment in pairs)
            if is_near and template.startswith(prefix) and len(sent) > len(known):
                return template
        return None

    def find(self, path: str) -> Match[T] | None:
        match = self._exact.get(path)
        if match is not None:
            return match
        parent, slash, last = path.rpartition("/")
        node = self._fixed.get(parent) if slash else None
        if node is None:
            return _search(self._root, path.split("/"))
        if node.only is None or not last or "%" in last or last in node.children:
            return _search(node, [last])
        name, child = node.only  # as of most requests
        return Match(child.template, child.targets, {name: last}) if child.targets else None


def _search(node: _Node[T], segments: list[str]) -> Match[T] | None:
    params = {}
    for segment in segments:
        child = node.children.get(segment)
        if child is not None:
            node = child
            continue
        for suffix, (name, child) in node.parameters.items():
            if segment.endswith(suffix) and segment != suffix:
                value = segment[: len(segment) - len(suffix)]
                if "%" in value:
                    value = unquote_to_bytes(value).decode("utf-8", errors="replace")
                params[name] = value
                node = child
                break
        else:
            return None
    return Match(node.template, node.targets, params) if node.targets else None
