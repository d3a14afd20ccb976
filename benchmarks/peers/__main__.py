"""Creations and reads on paymock and on comparable mock servers, each from its public package.

    python -m benchmarks.peers [--scratch DIR] [--rounds N] [--seconds S] [--only NAME]
                               [--stripe-mock PATH] [--json FILE] [--write]

Installs the packages of servers.py into DIR (default: paymock-peers in the user's cache). Then it starts them
and paymock in turns, each on one core, and measures with wrk and 32 connections on another core. Prism serves
paymock's OpenAPI document, WireMock a reply of paymock, and the others get their nearest equivalent of a
creation and a read. No two requests are alike: see harness/load.py. A server has started when it creates a
payment. stripe-mock has no such package and is measured where its program is given. The figures are medians;
on a busy machine compare the CPU times. `--write` puts them into docs/performance.md. It fails where a
request costs another server no more CPU time, and needs wrk, taskset, npm and java, on Linux with x86-64.
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

from benchmarks.load import require_tools, show_progress
from benchmarks.peers.installation import create_server_files, install
from benchmarks.peers.measurement import Figures, measure
from benchmarks.peers.servers import NODE, PAYMOCK, PEERS, stripe_mock
from harness.api_client import ROOT

PAGE, MARKER = ROOT / "docs" / "performance.md", "peers"
ROUNDS = 5
"""The least number for the page."""


def costs(row: Figures) -> tuple[str, str, str]:
    """CPU time until the first creation, of each further one, and of a read."""
    return f"{row.start:,.0f} ms", f"{row.created_cpu:,.0f} µs", f"{row.read_cpu:,.0f} µs"


def table(figures: Mapping[str, Figures]) -> str:
    """The figures as Markdown."""
    rows = [
        ("Server", "Start (CPU)", "Creation (CPU)", "Read (CPU)", "Memory", "Creations/s", "Reads/s"),
        ("---", *["---:"] * 6),
    ]
    for name, row in figures.items():
        rows.append((name, *costs(row), f"{row.megabytes:.0f} MB", f"{row.created:,.0f}", f"{row.read:,.0f}"))
    return "\n".join(f"| {' | '.join(row)} |" for row in rows)


def page_part(figures: Mapping[str, Figures], rounds: int, seconds: int) -> str:
    """The generated line of the page."""
    servers = "; ".join(f"{name} {', '.join(costs(row))}" for name, row in figures.items())
    return (
        f"CPU time until the first creation, of each further one, and of a read: {servers}. Medians of "
        f"{rounds} rounds of {seconds} s, with Python {platform.python_version()}, Node.js {NODE} and "
        f"Java {java_version()}."
    )


def java_version() -> str:
    """The version of Java."""
    command = "java", "--version"
    return subprocess.run(command, stdout=subprocess.PIPE, text=True, check=True).stdout.split()[1]


def main() -> None:
    """Print the table, and fail where a request costs a peer no more CPU time than paymock."""
    cache = Path(os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache") / "paymock-peers"
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--scratch", type=Path, default=cache, help="where packages are installed")
    parser.add_argument("--rounds", type=int, default=ROUNDS)
    parser.add_argument("--seconds", type=int, default=3, help="of each load")
    parser.add_argument(
        "--only",
        action="append",
        choices=[peer.name for peer in PEERS],
        help="this server, and paymock; repeatable",
    )
    parser.add_argument("--stripe-mock", type=Path, metavar="PATH", help="measure this program, too")
    parser.add_argument("--json", type=Path, help="write the figures here")
    parser.add_argument("--write", action="store_true", help="write the line into docs/performance.md")
    options = parser.parse_args()
    if options.write and (options.only or options.rounds < ROUNDS):
        parser.error(f"--write needs all servers, and {ROUNDS} rounds")
    require_tools("wrk", "taskset", "npm", "java")
    peers = [peer for peer in PEERS if not options.only or peer.name in (PAYMOCK, *options.only)]
    if options.stripe_mock:
        peers.append(stripe_mock(options.stripe_mock))
    modules, files = install(options.scratch), create_server_files()
    runs: dict[str, list[Figures]] = {f"{peer.name} {peer.version}".strip(): [] for peer in peers}
    for number in range(options.rounds):
        for peer, rows in zip(peers, runs.values(), strict=True):
            show_progress(f"round {number + 1} of {options.rounds}: {peer.name}")
            rows.append(measure(peer, modules, files, options.seconds))
    figures = {name: Figures(*map(statistics.median, zip(*rows, strict=True))) for name, rows in runs.items()}
    show_progress("")
    print(table(figures))
    if options.json:
        content = {name: row._asdict() for name, row in figures.items()}
        options.json.write_text(json.dumps(content, indent=2) + "\n", encoding="utf-8")
    if options.write:
        before, rest = PAGE.read_text(encoding="utf-8").split(f"<!-- {MARKER} -->\n", 1)
        after = rest.split(f"<!-- /{MARKER} -->", 1)[1]
        part = page_part(figures, options.rounds, options.seconds)
        PAGE.write_text(f"{before}<!-- {MARKER} -->\n{part}\n<!-- /{MARKER} -->{after}", encoding="utf-8")
    own = figures[PAYMOCK]
    if cheaper := [
        name
        for name, row in figures.items()
        if name != PAYMOCK and (row.created_cpu <= own.created_cpu or row.read_cpu <= own.read_cpu)
    ]:
        sys.exit(f"a request costs no more CPU time with {', '.join(cheaper)}")


if __name__ == "__main__":
    main()
