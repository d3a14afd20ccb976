"""Exact paths. A route is a path template such as `/v1/chains/{chain}/assets`; nothing else matches, not
even with a trailing slash. Segments are compared as they were sent and decoded only where they fill a
parameter, which may have a fixed end, as in `{id}.json`.
"""

from collections.abc import Awaitable, Callable, Mapping
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

from paymock.web.http.requests import Request
from paymock.web.http.responses import Header, Response

T = TypeVar("T")

PUBLIC, CONTROL = "/v1/", "/_mock/"
"""Paths below these need an API key."""

CHECKOUT = "/checkout/"
"""Paths below this need the id of a payment."""


Handler = Callable[[Request], Awaitable[Response]]


class Route(NamedTuple):
    """Where a path leads: its handler, whether it needs an API key, and, where there is one, the handler for
    requests without faults, which the fast path calls.
    """

    handler: Handler
    needs_key: bool = False
    fast_handler: Handler | None = None


class RoutedRequest(NamedTuple):
    """A request with the parameters of its path and the sandbox of its key, and where it leads."""

    request: Request
    route: Route


class Answer(NamedTuple):
    """The response to a request, the header lines to send it with, and the request as it was routed, if it
    was.
    """

    response: Response
    headers: list[Header]
    routed: RoutedRequest | None


class Match(NamedTuple, Generic[T]):
    """What a path leads to: the targets by method, and the values of the path's parameters by name."""

    targets: Mapping[str, T]
    params: Mapping[str, str]


class _Node(Generic[T]):
    def __init__(self) -> None:
        self.named: dict[str, _Node[T]] = {}
        self.parameters: dict[str, tuple[str, _Node[T]]] = {}
        """By their fixed ends, the longest first: the name, and where it leads."""

        self.targets: dict[str, T] = {}


class Routes(Generic[T]):
    """A table of exact paths, searched segment by segment."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()
        self._exact: dict[str, Match[T]] = {}
        self.templates: list[str] = []
        """Of all routes, in the order in which they came."""

    def add(self, method: str, template: str, target: T) -> None:
        """Leads `method` on the paths of `template` to `target`."""
        if template not in self.templates:
            self.templates.append(template)
        node = self._root
        for segment in template.split("/"):
            if segment.startswith("{"):
                name, _, end = segment[1:].partition("}")
                node.parameters.setdefault(end, (name, _Node()))
                node.parameters = dict(sorted(node.parameters.items(), key=lambda item: -len(item[0])))
                _, node = node.parameters[end]
            else:
                node = node.named.setdefault(segment, _Node())
        node.targets[method] = target
        if "{" not in template:
            self._exact[template] = Match(node.targets, {})

    def find(self, path: str) -> Match[T] | None:
        """What `path`, as it was sent, leads to, or None."""
        if path in self._exact:
            return self._exact[path]
        node, params = self._root, {}
        for segment in path.split("/"):
            if segment in node.named:
                node = node.named[segment]
                continue
            for end, (name, following) in node.parameters.items():
                if segment.endswith(end) and segment != end:
                    value = segment[: len(segment) - len(end)]
                    if "%" in value:
                        value = unquote_to_bytes(value).decode("utf-8", errors="replace")
                    params[name] = value
                    node = following
                    break
            else:
                return None
        return Match(node.targets, params) if node.targets else None
