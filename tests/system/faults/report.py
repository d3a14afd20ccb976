"""docs/fault-tests.md, from what a run has seen."""

import os
import platform
import shutil
import sqlite3
import statistics
import subprocess
from collections.abc import Sequence
from dataclasses import dataclass, field

from paymock.rules.tables import markdown
from tests.system.faults import prose
from tests.system.faults.crowds import CLIENTS, Crowded
from tests.system.faults.cuts import Severed
from tests.system.faults.kills import Killed
from tests.system.faults.lateness import DELAY_SECONDS, Late
from tests.system.faults.mixture import Mixed
from tests.system.faults.nodes import Bereaved
from tests.system.faults.settling import RETRIES

_SHOWN = 10


@dataclass
class Results:
    """What a run has seen. `forgetful` is the case that must fail."""

    command: str
    killed: list[Killed] = field(default_factory=list)
    forgetful: list[Killed] = field(default_factory=list)
    severed: list[Severed] = field(default_factory=list)
    bereaved: Bereaved = field(default_factory=Bereaved)
    crowded: list[Crowded] = field(default_factory=list)
    mixed: list[Mixed] = field(default_factory=list)
    late: list[Late] = field(default_factory=list)

    @property
    def violations(self) -> list[str]:
        """All that was wrong where nothing must be."""
        of_runs = [
            *(run.violations for run in self.killed),
            *(run.violations for run in self.severed),
            self.bereaved.violations,
            *(run.violations for run in self.crowded),
            *(run.violations for run in self.mixed),
        ]
        return [violation for found in of_runs for violation in found]


def report(results: Results) -> str:
    """The whole page."""
    parts = [
        prose.INTRODUCTION.format(
            command=results.command,
            processors=os.cpu_count(),
            python=platform.python_version(),
            sqlite=sqlite3.sqlite_version,
            redis=_redis(),
            verdict=_verdict(results.violations),
        ),
        prose.KILLS.format(table=_kills([*results.killed, *results.forgetful]), retries=RETRIES),
        prose.CUTS.format(table=_cuts(results.severed)),
        prose.NODES.format(table=_nodes(results.bereaved)),
        prose.CROWDS.format(table=_crowds(results.crowded), clients=CLIENTS),
        prose.MIXTURE.format(table=_mixture(results.mixed), faults=_faults(results.mixed)),
        prose.LATENESS.format(table=_lateness(results.late), delay=round(DELAY_SECONDS * 1000)),
    ]
    if any(run.affected for run in results.late):
        parts.append(prose.LIMIT)
    return "\n".join(part.strip("\n") + "\n" for part in parts)


def _verdict(violations: Sequence[str]) -> str:
    if not violations:
        return "**No violation was found**, except where loss is expected, as stated there."
    shown = "\n".join(f"- {violation}" for violation in violations[:_SHOWN])
    return f"**{len(violations)} violations were found**, such as:\n\n{shown}"


def _kills(runs: Sequence[Killed]) -> str:
    return _table(
        ("Killed", "Rounds", "Acknowledged", "Unknown", "Stored unseen", "Back after", "Violations"),
        [
            (
                run.name,
                run.rounds,
                run.acknowledged,
                run.unknown,
                run.stored,
                in_words(max(run.recoveries)) if run.recoveries else "",
                len(run.violations),
            )
            for run in runs
        ],
    )


def _cuts(runs: Sequence[Severed]) -> str:
    return _table(
        ("Cut", "Times", "Acknowledged", "503", "slowest", "Stored unseen", "Back after", "Violations"),
        [
            (
                run.name,
                run.rounds,
                run.acknowledged,
                run.refused,
                in_words(run.slowest),
                run.stored,
                f"{in_words(statistics.median(run.recoveries))}, at most {in_words(max(run.recoveries))}",
                len(run.violations),
            )
            for run in runs
        ],
    )


def _nodes(run: Bereaved) -> str:
    return _table(
        ("Kills", "Served by the others", "slowest", "503", "slowest", "Back after", "Violations"),
        [
            (
                run.rounds,
                run.served,
                in_words(run.slowest),
                run.refused,
                in_words(run.slowest_refusal),
                f"at most {in_words(max(run.recoveries, default=0))}",
                len(run.violations),
            )
        ],
    )


def _crowds(runs: Sequence[Crowded]) -> str:
    return _table(
        ("Store", "Rounds", "Replies", "All sent within", "All answered within", "Violations"),
        [
            (
                run.name,
                run.rounds,
                run.replies,
                in_words(statistics.median(run.spans)),
                f"{in_words(statistics.median(run.seconds))}, at most {in_words(max(run.seconds))}",
                len(run.violations),
            )
            for run in runs
        ],
    )


def _mixture(runs: Sequence[Mixed]) -> str:
    return _table(
        ("Store", "Seed", "Requests", "Unknown", "Conflicts", "Faults", "Slowest 503", "Violations"),
        [
            (
                run.name,
                str(run.seed),
                sum(run.requests.values()),
                run.unknown,
                run.conflicts,
                sum(run.faults.values()),
                in_words(run.slowest_refusal) if run.slowest_refusal else "none",
                len(run.violations),
            )
            for run in runs
        ],
    )


def _faults(runs: Sequence[Mixed]) -> str:
    return "\n".join(
        f"- {run.name}: " + ", ".join(f"{name} {times}" for name, times in sorted(run.faults.items()))
        for run in runs
    )


def _lateness(runs: Sequence[Late]) -> str:
    return _table(
        ("Late", "Rounds", "in which something went back"),
        [(run.name, run.rounds, run.affected) for run in runs],
    )


def _table(head: Sequence[str], rows: Sequence[Sequence[str | int]]) -> str:
    shown = [[f"{cell:,}" if isinstance(cell, int) else cell for cell in row] for row in rows]
    return markdown(head, shown)


def in_words(seconds: float) -> str:
    """A time, in milliseconds when it is short."""
    return f"{seconds * 1000:.0f} ms" if seconds < 1 else f"{seconds:.2f} s"


def _redis() -> str:
    program = shutil.which("redis-server")
    if program is None:
        return "of an unknown version"
    words = subprocess.run([program, "--version"], capture_output=True, text=True, check=True).stdout.split()
    return next((word.removeprefix("v=") for word in words if word.startswith("v=")), "of an unknown version")
