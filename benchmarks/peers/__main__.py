"""The same creations and reads against what else one could pick, each from its public package.

    python -m benchmarks.peers [--scratch DIR] [--rounds N] [--seconds S] [--only NAME]
                               [--json FILE] [--write]

Installs the packages of servers.py into DIR (default: paymock-peers in the user's cache). Then it starts them
and paymock in turns, each on one core, asks with wrk and 32 connections from another, and ends them again.
Prism and Mockoon are given paymock's own OpenAPI document, mountebank its reply; the others get their nearest
equivalent of a creation and a read. The figures are medians of the rounds; with `--write`, they go into
docs/performance.md. It fails where paymock is not ahead, and needs wrk, taskset, node and npm.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping
from pathlib import Path

from benchmarks.load import ROOT, need
from benchmarks.peers.running import Figures, measured
from benchmarks.peers.scratch import files, installed
from benchmarks.peers.servers import OURS, PEERS

PAGE, MARKER = ROOT / "docs" / "performance.md", "peers"
HIGHER = ("created", "read")
"""The figures of which more is better."""


def table(figures: Mapping[str, Figures]) -> str:
    """The figures as Markdown."""
    rows = [
        ("Server", "First reply", "Memory", "later", "Creations/s", "p99", "CPU", "Reads/s", "p99", "CPU"),
        ("---", *["---:"] * 9),
    ]
    for peer in PEERS:
        if of := figures.get(peer.name):
            name = f"{peer.name} {peer.version}".strip()
            start = f"{of.start:,.0f} ms", f"{of.megabytes:.0f} MB", f"{of.warm:.0f} MB"
            creations = f"{of.created:,.0f}", f"{of.created_p99:,.1f} ms", f"{of.created_cpu:,.0f} µs"
            reads = f"{of.read:,.0f}", f"{of.read_p99:,.1f} ms", f"{of.read_cpu:,.0f} µs"
            rows.append((name, *start, *creations, *reads))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page_part(figures: Mapping[str, Figures], rounds: int, seconds: int) -> str:
    """What goes into the documentation."""
    tools = ", ".join(
        [
            f"Python {platform.python_version()}",
            f"Node.js {first_line('node', '--version').removeprefix('v')}",
            f"wrk {first_line('wrk', '--version').split()[1].removeprefix('debian/')}",
        ]
    )
    said = f"Medians of {rounds} rounds, {seconds} s for each load on {os.cpu_count()} cores, with {tools}."
    shown = [
        f"{peer.name:<12} {peer.command.format(port='PORT', other='PORT', files='FILES')}"
        for peer in PEERS
        if peer.name in figures
    ]
    commands = "\n".join(shown)
    return f"{said}\n\n{table(figures)}\n\n```text\n{commands}\n```"


def first_line(*command: str) -> str:
    """What a command prints first."""
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return run.stdout.splitlines()[0]


def behind(figures: Mapping[str, Figures]) -> list[str]:
    """Where paymock is not ahead."""
    ours = figures[OURS]._asdict()
    return [
        f"{column}: {name} has {value:,.1f}, {OURS} {ours[column]:,.1f}"
        for name, of in figures.items()
        for column, value in of._asdict().items()
        if name != OURS and (value >= ours[column] if column in HIGHER else value <= ours[column])
    ]


def main() -> None:
    """Prints the table, and fails where paymock is not ahead."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paymock-peers"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, default=cache, help="where packages are installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument("--only", action="append", help="this server, and paymock; repeatable")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    need("wrk", "taskset", "node", "npm")
    peers = [peer for peer in PEERS if not options.only or peer.name in (OURS, *options.only)]
    folders = {peer.name: installed(peer, options.scratch) for peer in peers}
    given = files()
    runs: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    for number in range(options.rounds):
        for peer in peers:
            if sys.stderr.isatty():
                print(f"\rround {number + 1} of {options.rounds}: {peer.name}    ", end="", file=sys.stderr)
            runs[peer.name].append(measured(peer, folders[peer.name], given, options.seconds))
    figures = {name: Figures(*map(statistics.median, zip(*of, strict=True))) for name, of in runs.items()}
    print(table(figures))
    if options.json:
        rows = {name: of._asdict() for name, of in figures.items()}
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(f"<!-- {MARKER} -->\n", 1)
        after = rest.split(f"<!-- /{MARKER} -->", 1)[1]
        part = page_part(figures, options.rounds, options.seconds)
        PAGE.write_text(f"{before}<!-- {MARKER} -->\n{part}\n<!-- /{MARKER} -->{after}", encoding="utf-8")
    if lost := behind(figures):
        sys.exit("\n".join(lost))


if __name__ == "__main__":
    main()
