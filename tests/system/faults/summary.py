"""What docs/reliability.md says of a run, in a line for each promise."""

from collections.abc import Iterator, Sequence
from typing import Protocol

from benchmarks import figures
from tests.system.faults.report import Results, in_words


class Run(Protocol):
    """Whatever was judged."""

    violations: list[str]


def summary(results: Results) -> Iterator[tuple[figures.Name, str]]:
    """The name of each figure, and the figure."""
    killed, severed, node, crowded = results.killed, results.severed, results.bereaved, results.crowded
    kills, payments = sum(run.rounds for run in killed), sum(run.acknowledged for run in killed)
    yield "kills", _judged(killed, f"{kills} kills, {payments:,} acknowledged payments")
    slowest, back = max(run.slowest for run in severed), max(max(run.recoveries) for run in severed)
    cuts = f"{sum(run.rounds for run in severed)} cuts, slowest 503 {in_words(slowest)}"
    yield "cuts", _judged(severed, f"{cuts}, back within {in_words(back)}")
    others = f"{node.rounds} kills, {node.served:,} requests of others, slowest {in_words(node.slowest)}"
    yield "nodes", _judged([node], others)
    yield "crowds", _judged(crowded, f"{sum(run.replies for run in crowded):,} creations")
    requests, faults = (sum(sum(of.values()) for of in kinds) for kinds in _mixture(results))
    yield "mixture", _judged(results.mixed, f"{requests:,} requests, {faults} faults")


def _mixture(results: Results) -> tuple[list[dict[str, int]], list[dict[str, int]]]:
    return [run.requests for run in results.mixed], [run.faults for run in results.mixed]


def _judged(runs: Sequence[Run], seen: str) -> str:
    return f"{seen}, {sum(len(run.violations) for run in runs)} violations"
