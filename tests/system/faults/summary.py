"""The figures of a run for docs/reliability.md, one for each guarantee."""

from collections.abc import Iterator, Sequence

from harness.docs_figures import Name
from tests.system.faults.report import Results, all_violations, duration
from tests.system.faults.verification import Result


def summary(results: Results) -> Iterator[tuple[Name, str]]:
    """Names and figures."""
    kills, cuts, nodes = results.kills, results.cuts, results.nodes
    rounds, payments = sum(r.rounds for r in kills), sum(r.acknowledged for r in kills)
    yield "kills", _with_violations(kills, f"{rounds} kills, {payments:,} acknowledged payments")
    slowest, recovery = max(r.slowest for r in cuts), max(max(r.recoveries) for r in cuts)
    figure = f"{sum(r.rounds for r in cuts)} cuts, slowest 503 {duration(slowest)}"
    yield "cuts", _with_violations(cuts, f"{figure}, recovery within {duration(recovery)}")
    rounds, served = sum(r.rounds for r in nodes), sum(r.served for r in nodes)
    figure = f"{rounds} kills, {served:,} requests to other nodes"
    yield "nodes", _with_violations(nodes, f"{figure}, slowest {duration(max(r.slowest for r in nodes))}")
    replies = sum(r.replies for r in results.concurrency)
    yield "crowds", _with_violations(results.concurrency, f"{replies:,} creations")
    requests = sum(sum(r.requests.values()) for r in results.random)
    faults = sum(sum(r.faults.values()) for r in results.random)
    yield "mixture", _with_violations(results.random, f"{requests:,} requests, {faults} faults")


def _with_violations(results: Sequence[Result], figure: str) -> str:
    return f"{figure}, {sum(len(all_violations(result)) for result in results)} violations"
