"""The command `scenarios`, and `scenarios check`."""

from pathlib import Path

import click

from paymock.cli.common_options import as_json
from paymock.cli.errors import CommandError
from paymock.cli.output import echo, echo_json
from paymock.cli.table import Column, table_lines, terminal_width
from paymock.client.text import timeline_line
from paymock.rules.tables import scenario_rows
from paymock.schemas.control import ListedScenario, ScenarioList


@click.group(invoke_without_command=True)
@as_json
@click.pass_context
def scenarios(ctx: click.Context, /, *, as_json: bool) -> None:
    """List the scenarios.

    `check` shows what those of a file of your own lead to.
    """
    if ctx.invoked_subcommand is not None:
        return
    rows = scenario_rows()
    if as_json:
        echo_json({"data": [row._asdict() for row in rows]})
        return
    columns = [
        Column("SCENARIO", [row.name for row in rows]),
        Column("FINAL STATUS", [row.final_status for row in rows], 2),
        Column("AFTER", [row.after for row in rows], 3),
        Column("SIMULATES", [row.description for row in rows], 1),
    ]
    echo(*table_lines(columns, terminal_width(), wrapped=True))


@scenarios.command
@click.argument("file", type=click.Path(path_type=Path))
@as_json
def check(*, file: Path, as_json: bool) -> None:
    """Show what the scenarios of FILE lead to, for a due of 1,000,000 raw units.

    FILE is as for `paymock serve --scenarios`. A file that cannot be used is refused with the same message.
    """
    from paymock.app.scenario_file import read_scenarios  # imported here, since it takes long
    from paymock.resources.scenarios import ScenarioFileError, render_listed

    try:
        listed = [render_listed(scenario) for scenario in read_scenarios(file).values()]
    except ScenarioFileError as error:
        raise CommandError(str(error)) from None
    if as_json:
        echo_json(ScenarioList(data=listed))
        return
    for number, scenario in enumerate(listed):
        echo(*[""] * bool(number), *_lines(scenario))


def _lines(scenario: ListedScenario) -> list[str]:
    timeline = [timeline_line(one.offset_seconds, one.status, one.event) for one in scenario.timeline]
    simulates = [f"  {scenario.simulates}"] if scenario.simulates else []
    return [f"{scenario.name}  {scenario.final_status}", *simulates, *(f"  {line}" for line in timeline)]
