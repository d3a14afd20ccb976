"""docs/fault-tests.md, generated from the results of a run."""

import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from paymock.rules.tables import markdown
from tests.system.faults import report_text
from tests.system.faults.concurrent_creations import CLIENTS, ConcurrencyResult
from tests.system.faults.connection_cuts import CutResult
from tests.system.faults.late_commits import DELAY_SECONDS, LateCommitResult
from tests.system.faults.node_failures import NodeFailureResult
from tests.system.faults.random_faults import RandomFaultsResult
from tests.system.faults.server_kills import KillResult
from tests.system.faults.verification import RETRIES, Result

_SHOWN = 10


@dataclass
class Results:
    """The results of a run. `volatile` is the case in which data is lost."""

    command: str
    kills: list[KillResult] = field(default_factory=list)
    volatile: list[KillResult] = field(default_factory=list)
    cuts: list[CutResult] = field(default_factory=list)
    nodes: list[NodeFailureResult] = field(default_factory=list)
    concurrency: list[ConcurrencyResult] = field(default_factory=list)
    random: list[RandomFaultsResult] = field(default_factory=list)
    late_commits: list[LateCommitResult] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """All violations where none may occur."""
        judged = (*self.kills, *self.cuts, *self.nodes, *self.concurrency, *self.random)
        return [f"{result.name}: {text}" for result in judged for text in all_violations(result)]


def all_violations(result: Result) -> list[str]:
    """The violations of a result, including those of time limits."""
    return [*result.violations, *result.late]


def report(results: Results) -> str:
    """The whole page."""
    parts = [
        report_text.INTRODUCTION.format(
            command=results.command,
            processors=os.cpu_count(),
            python=platform.python_version(),
            sqlite=sqlite3.sqlite_version,
            redis=_redis_version(),
            verdict=_verdict(results.violations),
        ),
        report_text.KILLS.format(table=_kills([*results.kills, *results.volatile]), retries=RETRIES),
        report_text.CUTS.format(table=_cuts(results.cuts)),
        report_text.NODES.format(table=_nodes(results.nodes)),
        report_text.CONCURRENCY.format(table=_concurrency(results.concurrency), clients=CLIENTS),
        report_text.RANDOM.format(table=_random(results.random), faults=_faults(results.random)),
        report_text.LATE_COMMITS.format(
            table=_late_commits(results.late_commits), delay=round(DELAY_SECONDS * 1000)
        ),
    ]
    if any(result.affected for result in results.late_commits):
        parts.append(report_text.LIMIT)
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _verdict(violations: Sequence[str]) -> str:
    if not violations:
        return "**No violation was found**, except where loss is expected, as stated there."
    shown = "\n".join(f"- {violation}" for violation in violations[:_SHOWN])
    return f"**{len(violations)} violations were found**, such as:\n\n{shown}"


def _kills(results: Sequence[KillResult]) -> str:
    return _table(
        ("Killed", "Rounds", "Acknowledged", "Unknown", "Stored unseen", "Back after", "Violations"),
        [
            (
                result.name,
                result.rounds,
                result.acknowledged,
                result.unknown,
                result.stored,
                duration(max(result.recoveries)) if result.recoveries else "",
                len(all_violations(result)),
            )
            for result in results
        ],
    )


def _cuts(results: Sequence[CutResult]) -> str:
    return _table(
        ("Cut", "Rounds", "Acknowledged", "503", "Slowest 503", "Stored unseen", "Back after", "Violations"),
        [
            (
                result.name,
                result.rounds,
                result.acknowledged,
                result.refused,
                duration(result.slowest),
                result.stored,
                _median_and_maximum(result.recoveries),
                len(all_violations(result)),
            )
            for result in results
        ],
    )


def _nodes(results: Sequence[NodeFailureResult]) -> str:
    return _table(
        ("Kills", "Requests to other nodes", "Slowest", "503", "Slowest 503", "Back after", "Violations"),
        [
            (
                result.rounds,
                result.served,
                duration(result.slowest),
                result.refused,
                duration(result.slowest_refusal),
                f"at most {duration(max(result.recoveries, default=0))}",
                len(all_violations(result)),
            )
            for result in results
        ],
    )


def _concurrency(results: Sequence[ConcurrencyResult]) -> str:
    return _table(
        ("Store", "Rounds", "Replies", "All sent within", "All answered within", "Violations"),
        [
            (
                result.name,
                result.rounds,
                result.replies,
                duration(statistics.median(result.send_seconds)),
                _median_and_maximum(result.seconds),
                len(all_violations(result)),
            )
            for result in results
        ],
    )


def _random(results: Sequence[RandomFaultsResult]) -> str:
    return _table(
        ("Store", "Seed", "Requests", "Unknown", "Conflicts", "Faults", "Slowest 503", "Violations"),
        [
            (
                result.name,
                str(result.seed),
                sum(result.requests.values()),
                result.unknown,
                result.conflicts,
                sum(result.faults.values()),
                duration(result.slowest_refusal) if result.slowest_refusal else "none",
                len(all_violations(result)),
            )
            for result in results
        ],
    )


def _faults(results: Sequence[RandomFaultsResult]) -> str:
    return "\n".join(
        f"- {result.name}: " + ", ".join(f"{name} {count}" for name, count in sorted(result.faults.items()))
        for result in results
    )


def _late_commits(results: Sequence[LateCommitResult]) -> str:
    return _table(
        ("Late commit", "Rounds", "Rounds in which something went back"),
        [(result.name, result.rounds, result.affected) for result in results],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    return markdown(head, shown)


def _median_and_maximum(seconds: Sequence[float]) -> str:
    return f"{duration(statistics.median(seconds))}, at most {duration(max(seconds))}"


def duration(seconds: float) -> str:
    """A time for people, in milliseconds below a second."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _redis_version() -> str:
    program = shutil.which("redis-server")
    if program is None:
        return "(unknown version)"
    words = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()
    return next((word.removeprefix("v=") for word in words if word.startswith("v=")), "(unknown version)")
