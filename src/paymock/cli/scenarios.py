"""The command `scenarios`, and `scenarios check`."""

from pathlib import Path

import click

from paymock.cli.api import CommandError
from paymock.cli.options import FILE, as_json
from paymock.cli.output import Column, show, table_lines, terminal_width
from paymock.client.text import timeline_line
from paymock.rules.tables import scenario_rows
from paymock.schemas.control import ListedScenario, ScenarioList


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def scenarios(ctx: click.Context, /, *, as_json: bool) -> None:
    """List the scenarios.

    `check` shows the timelines of those of a file of your own.
    """
    if ctx.invoked_subcommand is not None:
        return
    rows = scenario_rows()
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
    from paymock.payments.files import (
        FileError,
        read_scenarios,  # imported here, since it takes long
    )
    from paymock.payments.scenarios import render_listed

    try:
        listed = [render_listed(scenario) for scenario in read_scenarios(file).values()]
    except FileError as error:
        raise CommandError(str(error)) from None
    lines = [line for scenario in listed for line in ("", *_lines(scenario))]
    show(ScenarioList(data=listed), lines[1:], as_json=as_json)


def _lines(scenario: ListedScenario) -> list[str]:
    timeline = [timeline_line(one.offset_seconds, one.status, one.event) for one in scenario.timeline]
    simulates = [f"  {scenario.simulates}"] if scenario.simulates else []
    return [f"{scenario.name}  {scenario.final_status}", *simulates, *(f"  {line}" for line in timeline)]
