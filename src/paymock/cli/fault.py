"""The commands on what is simulated: `scenarios`, `next` and `fault`."""

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import click
import msgspec

from paymock.cli.api import OPERATION, SCENARIO, ApiClient, CommandError, with_client
from paymock.cli.options import (
    FILE,
    PAYMENT,
    CommandGroup,
    Integer,
    api_key,
    as_json,
    complete_payment,
    complete_rule,
    completion,
    gone,
    server_url,
)
from paymock.cli.output import Column, show, table_lines, terminal_width
from paymock.client.http import Json
from paymock.payments.files import FileError, read_scenarios
from paymock.payments.views import listed_scenario
from paymock.rules.faults import FAULT_FORM, FAULT_ROWS
from paymock.rules.scenarios import SCENARIOS, Scenario
from paymock.rules.timeline import summarize
from paymock.schemas.control import MAX_TIMES, ScenarioList
from paymock.schemas.scenarios import course_of
from paymock.text import format_times, timeline_line

_complete_fault = completion(lambda _: [row.example for row in FAULT_ROWS])


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
    listed = [*map(listed_scenario, _read_file(file))]
    lines: list[str] = []
    for scenario in listed:
        lines += ["", f"{scenario.name}  {scenario.final_status}"]
        lines += [f"  {scenario.simulates}"] if scenario.simulates else []
        lines += [
            f"  {timeline_line(entry.offset_seconds, entry.status, entry.event)}"
            for entry in scenario.timeline
        ]
    show(ScenarioList(data=listed), lines[1:], as_json=as_json)


def _read_file(file: Path) -> list[Scenario]:
    """The scenarios of a TOML file. Raises CommandError."""
    try:
        return [*read_scenarios(file).values()]
    except FileError as error:
        raise CommandError(str(error)) from None


@click.command
@with_client
@click.argument("scenario", type=SCENARIO, metavar="[SCENARIO]", required=False)
@click.option("--course", type=FILE, metavar="FILE", help="TOML file of one scenario of your own, to apply.")
@click.option("--fault", **gone("paymock fault add FAULT --operation createPayment"))
@click.option("--times", type=Integer(1, MAX_TIMES), metavar="N", help="Number of creations. [default: 1]")
@click.option("--always", is_flag=True, help="All creations, until --clear or a reset.")
@click.option("--order", "order_id", metavar="ORDER", help="Only creations of this order.")
@click.option("--clear", is_flag=True, help="Delete all pending overrides, or those of the order.")
@as_json
def next(  # noqa: A001 - the name of the command
    client: ApiClient,
    *,
    scenario: str | None,
    course: Path | None,
    times: int | None,
    always: bool,
    order_id: str | None,
    clear: bool,
    as_json: bool,
) -> None:
    """Set the scenario of the next payments.

    They apply to creations without headers of their own. Prints all pending overrides; without
    SCENARIO and options, nothing changes.
    """
    has_override = scenario is not None or course is not None
    if clear and (has_override or always or times):
        raise click.UsageError("--clear can be combined with --order only.")
    repeat = _times(times, always=always)
    if (always or times or order_id) and not (has_override or clear):
        raise click.UsageError("--times, --always and --order need SCENARIO or --course.")
    if scenario and course:
        raise click.UsageError("Give SCENARIO or --course, not both.")
    if clear:
        client.clear_next(order_id)
    if has_override:
        custom = None
        if course is not None:
            found = _read_file(course)
            if len(found) != 1:
                raise CommandError(f"--course needs a file of one scenario, and {course} has {len(found)}")
            custom = msgspec.to_builtins(course_of(found[0]))
        overrides = client.next(scenario, repeat, course=custom, order_id=order_id)
    else:
        overrides = client.pending()
    lines = []
    for one in overrides:
        order = f"  order {one['order_id']}" if "order_id" in one else ""
        lines.append(f"{format_times(one['times']):<10}  {one['scenario']}{order}")
    show({"data": overrides}, lines, as_json=as_json, empty="nothing is pending")


def _times(times: int | None, *, always: bool) -> int | None:
    """The value of --times, by default 1; None for --always."""
    if always and times:
        raise click.UsageError("Give --times or --always, not both.")
    return None if always else times or 1


@click.group(cls=CommandGroup)
@server_url
@api_key
@as_json
def fault(**common: Any) -> None:
    """Add, list and delete fault rules.

    A rule injects a fault into requests that it selects, so that the application needs no headers.
    """


fault.guesses = {row.example: f"add {row.example}" for row in FAULT_ROWS} | {
    str(status): f"add status={status}" for status in range(400, 600)
}


@fault.command(epilog=f"FAULT is {FAULT_FORM}. In a shell, quote a fault that contains a semicolon.")
@with_client
@click.argument("text", metavar="FAULT", shell_complete=_complete_fault)
@click.option("--operation", type=OPERATION, metavar="NAME", help="Only requests of this operation.")
@click.option("--order", "order_id", metavar="ORDER", help="Only requests about payments of this order.")
@click.option(
    "--payment",
    "payment_id",
    metavar=PAYMENT,
    shell_complete=complete_payment,
    help="Only requests about this payment.",
)
@click.option(
    "--skip", type=Integer(0, MAX_TIMES), default=0, metavar="N", help="Number of requests that pass first."
)
@click.option("--times", type=Integer(1, MAX_TIMES), metavar="N", help="Number of requests. [default: 1]")
@click.option("--always", is_flag=True, help="All requests, until the rule is deleted.")
@as_json
def add(
    client: ApiClient,
    *,
    text: str,
    payment_id: str | None,
    times: int | None,
    always: bool,
    as_json: bool,
    **selection: Any,
) -> None:
    """Add a rule that injects FAULT into the requests that it selects, and print it."""
    repeat = _times(times, always=always)
    if payment_id is not None:
        payment_id = client.resolve(payment_id)
    rule = client.fault(text, payment_id=payment_id, times=repeat, **selection)
    show(rule, _rule_lines([rule]), as_json=as_json)


@fault.command("list")
@with_client
@as_json
def list_rules(client: ApiClient, *, as_json: bool) -> None:
    """List the rules in their order.

    Each with the number of requests that it has selected (seen) and injected its fault into (applied).
    """
    _show_rules(client, as_json=as_json)


@fault.command
@with_client
@click.argument("rule_ids", metavar="RULE_ID...", nargs=-1, required=True, shell_complete=complete_rule)
@as_json
def delete(client: ApiClient, *, rule_ids: tuple[str, ...], as_json: bool) -> None:
    """Delete the rules with these ids, and print those that are left."""
    if "" in rule_ids:
        raise click.UsageError("A rule ID is empty.")
    for rule_id in rule_ids:
        client.clear_faults(rule_id)
    _show_rules(client, as_json=as_json)


@fault.command
@with_client
@as_json
def clear(client: ApiClient, *, as_json: bool) -> None:
    """Delete all rules."""
    client.clear_faults()
    _show_rules(client, as_json=as_json)


def _show_rules(client: ApiClient, *, as_json: bool) -> None:
    rules = client.faults()
    show({"data": rules}, _rule_lines(rules), as_json=as_json, empty="no fault rules")


def _rule_lines(rules: Sequence[Json]) -> list[str]:
    """A header and a line for each rule; none without rules."""
    columns = [Column("TIMES", [format_times(rule["times"]) for rule in rules])]
    for name in ("fault", "operation", "order_id", "payment_id", "skip", "seen", "applied", "waiting", "id"):
        cells = ["" if rule.get(name) is None else str(rule[name]) for rule in rules]
        columns.append(Column(name.removesuffix("_id").upper(), cells))
    return table_lines([column for column in columns if any(column.cells)], None) if rules else []
