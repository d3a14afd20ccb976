"""Creations and reads on paymock and on comparable mock servers, each from its public package.

    python -m benchmarks.peers [--scratch DIR] [--rounds N] [--seconds S] [--only NAME]
                               [--stripe-mock PATH] [--json FILE] [--write]

Installs the packages of servers.py into DIR (default: paymock-peers in the user's cache). Then it starts them
and paymock in turns, each on one core, and measures with wrk and 32 connections on another core. Prism and
Mockoon serve paymock's OpenAPI document, mountebank serves its reply, and the others get their nearest
equivalent of a creation and a read. No two requests are alike: see harness/load.py. stripe-mock has no such
package and is measured where its program is given. The figures are medians; `--write` puts them into
docs/performance.md. It fails where paymock is not faster, and needs wrk, taskset, node and npm.
"""

import argparse
import json
import os
import platform
import statistics
import subprocess
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path

from benchmarks.load import require_tools, show_progress
from benchmarks.peers.installation import create_server_files, install
from benchmarks.peers.measurement import Figures, measure
from benchmarks.peers.servers import PAYMOCK, PEERS, Peer, stripe_mock
from harness.api_client import ROOT

PAGE, MARKER = ROOT / "docs" / "performance.md", "peers"
HIGHER = ("created", "read")
"""Figures of which a higher value is better."""


def table(peers: Sequence[Peer], figures: Mapping[str, Figures]) -> str:
    """The figures as Markdown."""
    rows = [
        ("Server", "First reply", "Memory", "Creations/s", "Reads/s"),
        ("---", *["---:"] * 4),
    ]
    for peer in peers:
        row = figures[peer.name]
        name = f"{peer.name} {peer.version}".strip()
        start = f"{row.start:,.0f} ms", f"{row.megabytes:.0f} MB"
        rows.append((name, *start, f"{row.created:,.0f}", f"{row.read:,.0f}"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page_part(peers: Sequence[Peer], figures: Mapping[str, Figures], rounds: int, seconds: int) -> str:
    """The generated part of the page."""
    tools = ", ".join(
        [
            f"Python {platform.python_version()}",
            f"Node.js {first_line('node', '--version').removeprefix('v')}",
            f"wrk {first_line('wrk', '--version').split()[1].removeprefix('debian/')}",
        ]
    )
    runs = "One round" if rounds == 1 else f"Medians of {rounds} rounds"
    summary = f"{runs}, {seconds} s for each load on {os.cpu_count()} cores, with {tools}."
    return f"{summary}\n\n{table(peers, figures)}"


def first_line(*command: str) -> str:
    """The first line of output of a command."""
    run = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, text=True, check=False)
    return run.stdout.splitlines()[0]


def slower_than_peers(figures: Mapping[str, Figures]) -> list[str]:
    """Figures in which a peer is at least as good."""
    own = figures[PAYMOCK]._asdict()
    return [
        f"{column}: {name} has {value:,.1f}, {PAYMOCK} {own[column]:,.1f}"
        for name, row in figures.items()
        for column, value in row._asdict().items()
        if name != PAYMOCK and (value >= own[column] if column in HIGHER else value <= own[column])
    ]


def main() -> None:
    """Print the table, and fail where paymock is not faster."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paymock-peers"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, default=cache, help="where packages are installed")
    parser.add_argument("--rounds", type=int, default=5)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument("--only", action="append", help="this server, and paymock; repeatable")
    parser.add_argument("--stripe-mock", type=Path, metavar="PATH", help="measure this program, too")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--write", action="store_true", help="write the table into docs/performance.md")
    options = parser.parse_args()
    require_tools("wrk", "taskset", "node", "npm")
    peers = [peer for peer in PEERS if not options.only or peer.name in (PAYMOCK, *options.only)]
    if options.stripe_mock:
        peers.append(stripe_mock(options.stripe_mock))
    folders = {peer.name: install(peer, options.scratch) for peer in peers}
    files = create_server_files()
    runs: dict[str, list[Figures]] = {peer.name: [] for peer in peers}
    for number in range(options.rounds):
        for peer in peers:
            show_progress(f"round {number + 1} of {options.rounds}: {peer.name}")
            runs[peer.name].append(measure(peer, folders[peer.name], files, options.seconds))
    figures = {name: Figures(*map(statistics.median, zip(*rows, strict=True))) for name, rows in runs.items()}
    show_progress("")
    print(table(peers, figures))
    if options.json:
        rows = {name: row._asdict() for name, row in figures.items()}
        options.json.write_text(json.dumps(rows, indent=2) + "\n", encoding="utf-8")
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(f"<!-- {MARKER} -->\n", 1)
        after = rest.split(f"<!-- /{MARKER} -->", 1)[1]
        part = page_part(peers, figures, options.rounds, options.seconds)
        PAGE.write_text(f"{before}<!-- {MARKER} -->\n{part}\n<!-- /{MARKER} -->{after}", encoding="utf-8")
    if slower := slower_than_peers(figures):
        sys.exit("\n".join(slower))


if __name__ == "__main__":
    main()
