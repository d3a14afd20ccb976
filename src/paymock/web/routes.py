"""Exact paths. A route is a path template such as `/v1/chains/{chain}/assets`; nothing else matches, not
even with a slash more. Segments are compared as they were sent and decoded only where they fill a
parameter.
"""

from collections.abc import Mapping
from typing import Generic, NamedTuple, TypeVar
from urllib.parse import unquote_to_bytes

T = TypeVar("T")


class Match(NamedTuple, Generic[T]):
    """What a path leads to: the targets by method, and the values of the path's parameters by name."""

    targets: Mapping[str, T]
    params: Mapping[str, str]


class _Node(Generic[T]):
    def __init__(self) -> None:
        self.named: dict[str, _Node[T]] = {}
        self.parameter: tuple[str, _Node[T]] | None = None
        self.targets: dict[str, T] = {}


class Routes(Generic[T]):
    """A table of exact paths, searched segment by segment."""

    def __init__(self) -> None:
        self._root: _Node[T] = _Node()

    def add(self, method: str, template: str, target: T) -> None:
        """Leads `method` on the paths of `template` to `target`."""
        node = self._root
        for segment in template.split("/"):
            if segment.startswith("{"):
                if node.parameter is None:
                    node.parameter = (segment[1:-1], _Node())
                _, node = node.parameter
            else:
                node = node.named.setdefault(segment, _Node())
        node.targets[method] = target

    def find(self, path: str) -> Match[T] | None:
        """What `path`, as it was sent, leads to, or None."""
        node, params = self._root, {}
        for segment in path.split("/"):
            if segment in node.named:
                node = node.named[segment]
            elif segment and node.parameter:
                name, node = node.parameter
                params[name] = unquote_to_bytes(segment).decode("utf-8", errors="replace")
            else:
                return None
        return Match(node.targets, params) if node.targets else None
