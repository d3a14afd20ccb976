"""What is wrong with an engine before it is used, and what its operator should know about it."""

import asyncio
from collections.abc import Callable, Mapping, Sequence
from typing import Any, NamedTuple

from paymock.rules.errors import PaymockError
from paymock.stores.base import StoreError
from paymock.stores.redis.connection import Node, reason_of
from paymock.stores.redis.scripts import pack

OLDEST = (6, 2)
"""The oldest version of Redis that will do. Valkey says which version of Redis it equals."""

_SETTINGS = ("appendonly", "cluster-require-full-coverage", "maxmemory-policy", "save")


class Report(NamedTuple):
    """What an engine says about itself: its state, and its settings, none of which may be readable."""

    info: Mapping[str, str]
    settings: Mapping[str, str]


async def inspected(nodes: Sequence[Node], *, cluster: bool) -> str | None:
    """What the operator of the engines should know about them. Raises StoreError when one does not fit, or
    none answers.
    """
    answers = await asyncio.gather(*(_answer_of(node) for node in nodes))
    reports: dict[str, Report] = {}
    silent: dict[str, str] = {}
    for node, answer in zip(nodes, answers, strict=True):
        if isinstance(answer, Report):
            reports[str(node.address)] = answer
            if reason := unusable(answer.info, cluster=cluster):
                raise StoreError(f"cannot use the store at {node.address}: {reason}")
        else:
            silent[str(node.address)] = reason_of(answer)
    if not reports:
        raise StoreError(f"cannot use the store at {_some([*silent])}: {next(iter(silent.values()))}")
    return warning(reports, [*silent])


def unusable(info: Mapping[str, str], *, cluster: bool) -> str | None:
    """Why an engine that says `info` cannot be used, or not as a node of a `cluster`, if so."""
    version = info.get("redis_version", "0")
    if tuple(int(part) for part in version.split(".")[:2]) < OLDEST:
        return f"it is Redis {version}, and {'.'.join(map(str, OLDEST))} or later is needed"
    if not cluster and info.get("cluster_enabled") == "1":
        return "it is a cluster: use redis+cluster:// or rediss+cluster://"
    if info.get("role") != "master":
        return f"its role is {info.get('role')}, so it takes no changes"
    return None


def warning(reports: Mapping[str, Report], silent: Sequence[str] = ()) -> str | None:
    """What the operator should know, given what engines say about themselves, and which are silent."""

    def those(suspect: Callable[[Report], bool]) -> list[str]:
        return [where for where, report in reports.items() if report.settings and suspect(report)]

    sentences = []
    if silent:
        sentences.append(f"the store at {_some(silent)} does not answer; its sandboxes wait for it")
    if forgetful := those(lambda report: report.settings["appendonly"] == "no"):
        kept = "only a snapshot now and then" if reports[forgetful[0]].settings["save"] else "nothing"
        sentences.append(
            f"the store at {_some(forgetful)} keeps {kept} on disk, so payments are lost when it ends; "
            "set `appendonly yes` there"
        )
    if evicting := those(_evicts):
        sentences.append(
            f"the store at {_some(evicting)} forgets payments when its memory is full; "
            "set `maxmemory-policy noeviction` there"
        )
    if len(reports) > 1 and those(lambda report: report.settings["cluster-require-full-coverage"] == "yes"):
        sentences.append(
            "when one node of the store is gone, all refuse; "
            "set `cluster-require-full-coverage no`, and only its own sandboxes wait for it"
        )
    return ". ".join(sentences) or None


async def _answer_of(node: Node) -> Report | PaymockError:
    try:
        info: bytes = await node.do(pack("INFO"))
    except PaymockError as failure:
        return failure
    asked = [node.do(pack("CONFIG", "GET", name)) for name in _SETTINGS]
    found: list[Any] = await asyncio.gather(*asked, return_exceptions=True)
    readable = all(isinstance(reply, list) and reply for reply in found)
    settings = [reply[1].decode() for reply in found] if readable else []
    lines = info.decode().splitlines()
    return Report(
        dict(line.split(":", 1) for line in lines if ":" in line),
        dict(zip(_SETTINGS, settings, strict=readable)),
    )


def _evicts(report: Report) -> bool:
    return report.settings["maxmemory-policy"] != "noeviction" and report.info.get("maxmemory") != "0"


def _some(addresses: Sequence[str]) -> str:
    first, *more = addresses
    return f"{first} and {len(more)} more" if more else first
