"""The command `fault` and its subcommands."""

from collections.abc import Sequence
from typing import Any

import click

from paymock.cli.api import OPERATION, ApiClient, with_client
from paymock.cli.options import (
    PAYMENT,
    CommandGroup,
    Integer,
    api_key,
    as_json,
    complete_payment,
    complete_rule,
    completion,
    repetitions,
    server_url,
)
from paymock.cli.output import Column, show, table_lines
from paymock.client.http import Json
from paymock.rules.faults import FAULT_FORM, FAULT_ROWS
from paymock.schemas.control import MAX_TIMES
from paymock.text import format_times

_complete_fault = completion(lambda _: [row.example for row in FAULT_ROWS])


@click.group(cls=CommandGroup)
@server_url
@api_key
@as_json
def fault(**common: Any) -> None:
    """Add, list and delete fault rules.

    A rule injects a fault into the requests that match it. The application needs no special headers.
    """


fault.guesses = {row.example: f"add {row.example}" for row in FAULT_ROWS} | {
    str(status): f"add status={status}" for status in range(400, 600)
}


@fault.command(epilog=f"FAULT is {FAULT_FORM}. In a shell, quote a fault that contains a semicolon.")
@with_client
@click.argument("text", metavar="FAULT", shell_complete=_complete_fault)
@click.option("--operation", type=OPERATION, metavar="NAME", help="Only requests of this operation.")
@click.option("--order", "order_id", metavar="ORDER", help="Only requests about payments of this order.")
@click.option("--order-prefix", "order_id_prefix", metavar="TEXT", help="Only orders that begin with TEXT.")
@click.option(
    "--payment",
    "payment_id",
    metavar=PAYMENT,
    shell_complete=complete_payment,
    help="Only requests about this payment.",
)
@click.option(
    "--skip", type=Integer(0, MAX_TIMES), default=0, metavar="N", help="Let the first N requests pass."
)
@click.option("--times", type=Integer(1, MAX_TIMES), metavar="N", help="Apply to N requests. [default: 1]")
@click.option("--always", is_flag=True, help="Apply to all requests, until the rule is deleted.")
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
    """Add a rule that injects FAULT into matching requests, and print it."""
    repeat = repetitions(times, always=always)
    if payment_id is not None:
        payment_id = client.resolve(payment_id)
    rule = client.fault(text, payment_id=payment_id, times=repeat, **selection)
    show(rule, _rule_lines([rule]), as_json=as_json)


@fault.command("list")
@with_client
@as_json
def list_rules(client: ApiClient, *, as_json: bool) -> None:
    """List the rules in their order.

    SEEN counts the requests that matched a rule, APPLIED those that got its fault.
    """
    _show_rules(client, as_json=as_json)


@fault.command
@with_client
@click.argument("rule_ids", metavar="RULE_ID...", nargs=-1, required=True, shell_complete=complete_rule)
@as_json
def delete(client: ApiClient, *, rule_ids: tuple[str, ...], as_json: bool) -> None:
    """Delete the rules with these ids, and print the remaining ones."""
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
    columns = [Column("TIMES", [format_times(rule["times"]) for rule in rules])]
    names = "fault", "operation", "order_id", "order_id_prefix", "payment_id", "skip", "seen", "applied"
    for name in (*names, "waiting", "id"):
        cells = ["" if rule.get(name) is None else str(rule[name]) for rule in rules]
        columns.append(Column(name.removesuffix("_id").upper(), cells))
    return table_lines([column for column in columns if any(column.cells)], None) if rules else []
