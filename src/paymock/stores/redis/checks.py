"""Checks of Redis engines at the start: errors that prevent their use, and warnings for the operator."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from paymock.rules.errors import PaymockError
from paymock.stores.base import StoreError
from paymock.stores.redis.connection import Node, describe_failure
from paymock.stores.redis.scripts import pack

MIN_VERSION = (6, 2)
"""Oldest supported version of Redis. Valkey reports the version of Redis that it is compatible with."""

_SETTINGS = ("appendonly", "cluster-require-full-coverage", "maxmemory-policy", "save")


class NodeReport(NamedTuple):
    """The INFO of an engine, and its relevant settings, empty if they may not be read."""

    info: Mapping[str, str]
    settings: Mapping[str, str]


async def check_nodes(nodes: Sequence[Node], *, cluster: bool) -> str | None:
    """Return warnings about the engines for their operator, if any. Raises StoreError if one is unusable, or
    none responds.
    """
    replies = await asyncio.gather(*(_fetch_report(node) for node in nodes))
    reports: dict[str, NodeReport] = {}
    failures: dict[str, str] = {}
    for node, reply in zip(nodes, replies, strict=True):
        if isinstance(reply, NodeReport):
            reports[str(node.address)] = reply
            if reason := find_defect(reply.info, cluster=cluster):
                raise StoreError(f"cannot use the store at {node.address}: {reason}")
        else:
            failures[str(node.address)] = describe_failure(reply)
    if not reports:
        raise StoreError(
            f"cannot use the store at {_abbreviate([*failures])}: {next(iter(failures.values()))}"
        )
    return find_warnings(reports, [*failures])


def find_defect(info: Mapping[str, str], *, cluster: bool) -> str | None:
    """Return why an engine with this INFO cannot be used, alone or as a node of a `cluster`, if it cannot."""
    version = info.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < MIN_VERSION:
        return f"it is Redis {version}, and {'.'.join(map(str, MIN_VERSION))} or later is required"
    if not cluster and info.get("cluster_enabled") == "1":
        return "it is a cluster: use redis+cluster:// or rediss+cluster://"
    if info.get("role") != "master":
        return f"it does not accept writes: its role is {info.get('role')}"
    return None


def find_warnings(reports: Mapping[str, NodeReport], unreachable: Sequence[str] = ()) -> str | None:
    """Return warnings for the operator, given the reports of engines by address and the addresses of those
    that do not respond.
    """

    def select(condition: Callable[[NodeReport], bool]) -> list[str]:
        return [address for address, report in reports.items() if report.settings and condition(report)]

    warnings = []
    if unreachable:
        warnings.append(
            f"the store at {_abbreviate(unreachable)} does not respond; "
            "its sandboxes are unavailable until it does"
        )
    if volatile := select(lambda report: report.settings["appendonly"] == "no"):
        persisted = "only occasional snapshots" if reports[volatile[0]].settings["save"] else "nothing"
        warnings.append(
            f"the store at {_abbreviate(volatile)} writes {persisted} to disk, "
            "so payments are lost when it ends; set `appendonly yes` there"
        )
    if evicting := select(_evicts):
        warnings.append(
            f"the store at {_abbreviate(evicting)} evicts payments when its memory is full; "
            "set `maxmemory-policy noeviction` there"
        )
    if len(reports) > 1 and select(lambda report: report.settings["cluster-require-full-coverage"] == "yes"):
        warnings.append(
            "when one node of the store is down, all others refuse requests; "
            "set `cluster-require-full-coverage no`, so that only the sandboxes of that node are unavailable"
        )
    return ". ".join(warnings) or None


async def _fetch_report(node: Node) -> NodeReport | PaymockError:
    try:
        info: bytes = await node.execute(pack("INFO"))
    except PaymockError as failure:
        return failure
    replies: list[Any] = await asyncio.gather(
        *(node.execute(pack("CONFIG", "GET", name)) for name in _SETTINGS), return_exceptions=True
    )
    readable = all(isinstance(reply, list) and reply for reply in replies)
    settings = [reply[1].decode() for reply in replies] if readable else []
    lines = info.decode().splitlines()
    return NodeReport(
        dict(line.split(":", 1) for line in lines if ":" in line),
        dict(zip(_SETTINGS, settings, strict=readable)),
    )


def _evicts(report: NodeReport) -> bool:
    return report.settings["maxmemory-policy"] != "noeviction" and report.info.get("maxmemory") != "0"


def _abbreviate(addresses: Sequence[str]) -> str:
    first, *others = addresses
    return f"{first} and {len(others)} more" if others else first
