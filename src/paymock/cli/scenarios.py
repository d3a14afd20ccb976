"""The command `scenarios`."""

import click

from paymock.cli.common_options import as_json
from paymock.cli.output import echo, echo_json
from paymock.cli.table import Column, table_lines, terminal_width
from paymock.rules.tables import scenario_rows


@click.command
@as_json
def scenarios(*, as_json: bool) -> None:
    """List the scenarios."""
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
