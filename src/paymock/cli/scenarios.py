"""The commands `scenarios`, and `next`, which sets that of the next payments."""

import json
from pathlib import Path
from typing import Any

import click
import msgspec

from paymock.cli.api import SCENARIO, ApiClient, CommandError, with_client
from paymock.cli.options import FILE, Integer, as_json, gone, metadata_option, repetitions
from paymock.cli.output import Column, show, table_lines, terminal_width
from paymock.payments.files import FileError, read_scenarios
from paymock.payments.views import listed_scenario
from paymock.rules.scenarios import SCENARIOS, Scenario
from paymock.rules.timeline import summarize
from paymock.schemas.control import MAX_TIMES, ScenarioList
from paymock.schemas.scenarios import course_of
from paymock.text import format_times, timeline_line


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
    """Show the timelines of the scenarios in FILE, for a `due` of 1,000,000 raw units.

    FILE is a file for `paymock serve --scenarios`, and is checked in the same way.
    """
    listed = [*map(listed_scenario, _read_file(file))]
    lines: list[str] = []
    for scenario in listed:
        lines += ["", f"{scenario.name}  {scenario.final_status}"]
        lines += [f"  {scenario.simulates}"] if scenario.simulates else []
        for entry in scenario.timeline:
            lines.append(f"  {timeline_line(entry.offset_seconds, entry.status, entry.event)}")
    show(ScenarioList(data=listed), lines[1:], as_json=as_json)


def _read_file(file: Path) -> list[Scenario]:
    try:
        return [*read_scenarios(file).values()]
    except FileError as error:
        raise CommandError(str(error)) from None


@click.command
@with_client
@click.argument("scenario", type=SCENARIO, metavar="[SCENARIO]", required=False)
@click.option("--course", type=FILE, metavar="FILE", help="Apply the one scenario in this TOML file.")
@click.option("--fault", **gone("paymock fault add FAULT --operation createPayment"))
@click.option("--times", type=Integer(1, MAX_TIMES), metavar="N", help="Apply to N creations. [default: 1]")
@click.option("--always", is_flag=True, help="Apply to all creations, until --clear or a reset.")
@click.option("--order", "order_id", metavar="ORDER", help="Only creations of this order.")
@click.option(
    "--order-prefix", "order_id_prefix", metavar="TEXT", help="Only creations of orders that begin with TEXT."
)
@metadata_option(help="Only creations with this metadata entry, or these of a JSON object. Repeatable.")
@click.option("--clear", is_flag=True, help="Delete all overrides, or only those with these conditions.")
@as_json
def next(  # noqa: A001 - the name of the command
    client: ApiClient,
    *,
    scenario: str | None,
    course: Path | None,
    times: int | None,
    always: bool,
    clear: bool,
    as_json: bool,
    **conditions: Any,
) -> None:
    """Set the scenario of the next payments.

    Overrides apply to creations without X-Mock-Scenario. This prints all pending overrides; without
    SCENARIO and options, it changes nothing.
    """
    has_override = scenario is not None or course is not None
    if clear and (has_override or always or times):
        raise click.UsageError("--clear can be combined only with --order, --order-prefix and --metadata.")
    repeat = repetitions(times, always=always)
    given = [one for one in conditions.values() if one is not None]
    if (always or times or given) and not (has_override or clear):
        raise click.UsageError("--times, --always and conditions need SCENARIO or --course.")
    if scenario and course:
        raise click.UsageError("Give SCENARIO or --course, not both.")
    if clear:
        client.clear_next(**conditions)
    if has_override:
        custom = None
        if course is not None:
            found = _read_file(course)
            if len(found) != 1:
                raise CommandError(f"--course needs a file of one scenario, and {course} has {len(found)}")
            custom = msgspec.to_builtins(course_of(found[0]))
        overrides = client.next(scenario, repeat, course=custom, **conditions)
    else:
        overrides = client.pending()
    lines = []
    for one in overrides:
        told = [f"order {one['order_id']}"] if "order_id" in one else []
        told += [f"orders {one['order_id_prefix']}*"] if "order_id_prefix" in one else []
        told += [f"metadata {json.dumps(one['metadata'])}"] if "metadata" in one else []
        lines.append("  ".join([f"{format_times(one['times']):<10}", one["scenario"], *told]))
    show({"data": overrides}, lines, as_json=as_json, empty="nothing is pending")
