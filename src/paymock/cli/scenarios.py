"""The command `scenarios`, and its subcommand `check`."""

from pathlib import Path

import click

from paymock.cli.api import CommandError
from paymock.cli.options import FILE, as_json
from paymock.cli.output import Column, show, table_lines, terminal_width
from paymock.payments.files import FileError, read_scenarios
from paymock.payments.views import listed_scenario
from paymock.rules.scenarios import SCENARIOS, Scenario
from paymock.rules.timeline import summarize
from paymock.schemas.control import ScenarioList
from paymock.text import timeline_line


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def scenarios(ctx: click.Context, /, *, as_json: bool) -> None:
    """List the scenarios.

    `check` shows the timelines of the scenarios in a file of your own.
    """
    if ctx.invoked_subcommand is not None:
        return
    rows = [*map(summarize, SCENARIOS.values())]
    columns = [
        Column("SCENARIO", [row.name for row in rows]),
        Column("FINAL STATUS", [row.final_status for row in rows], 2),
        Column("AFTER", [row.after for row in rows], 3),
        Column("SIMULATES", [row.description for row in rows], 1),
    ]
    lines = table_lines(columns, terminal_width(), wrapped=True)
    show({"data": [row._asdict() for row in rows]}, lines, as_json=as_json)


@scenarios.command
@click.argument("file", type=FILE)
@as_json
def check(*, file: Path, as_json: bool) -> None:
    """Show the timelines of the scenarios of FILE, for a due of 1,000,000 raw units.

    FILE is as for `paymock serve --scenarios`. A file that cannot be used is refused with the same message.
    """
    listed = [*map(listed_scenario, read_file(file))]
    lines: list[str] = []
    for scenario in listed:
        lines += ["", f"{scenario.name}  {scenario.final_status}"]
        lines += [f"  {scenario.simulates}"] if scenario.simulates else []
        lines += [
            f"  {timeline_line(entry.offset_seconds, entry.status, entry.event)}"
            for entry in scenario.timeline
        ]
    show(ScenarioList(data=listed), lines[1:], as_json=as_json)


def read_file(file: Path) -> list[Scenario]:
    """The scenarios of a TOML file. Raises CommandError."""
    try:
        return [*read_scenarios(file).values()]
    except FileError as error:
        raise CommandError(str(error)) from None
