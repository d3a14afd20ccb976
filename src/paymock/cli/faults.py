"""Commands on fault rules: `fault add`, `fault list` and `fault clear`."""

from typing import Any

import click

from paymock.cli.api_client import ApiClient
from paymock.cli.common_options import CommandGroup, api_key, as_json, server_url
from paymock.cli.errors import ApiCommand
from paymock.cli.options import OPERATION, complete_newest, resolve_payment_id, with_client
from paymock.cli.output import echo, echo_json, echo_note
from paymock.client.http import Json
from paymock.client.text import fault_rule_line
from paymock.rules.faults import FAULT_FORM
from paymock.schemas.control import MAX_TIMES


@click.group(cls=CommandGroup)
@server_url
@api_key
@as_json
def fault(**common: Any) -> None:
    """Add, list and delete fault rules.

    A rule injects a fault into requests that it selects, so that the application needs no headers.
    """


@fault.command(
    cls=ApiCommand, epilog=f"FAULT is {FAULT_FORM}. In a shell, quote a fault that contains a semicolon."
)
@with_client
@click.argument("text", metavar="FAULT")
@click.option("--operation", type=OPERATION, metavar="NAME", help="Only requests of this operation.")
@click.option("--order", "order_id", metavar="ID", help="Only requests about payments of this order.")
@click.option(
    "--payment",
    "payment_id",
    metavar="ID",
    shell_complete=complete_newest,
    help="Only requests about this payment, an id or `newest`.",
)
@click.option(
    "--skip",
    type=click.IntRange(0, MAX_TIMES),
    default=0,
    show_default=True,
    metavar="N",
    help="Number of requests that pass first.",
)
@click.option(
    "--times", type=click.IntRange(1, MAX_TIMES), metavar="N", help="Number of requests. [default: 1]"
)
@click.option("--always", is_flag=True, help="All requests, until the rule is deleted.")
@as_json
def add(
    client: ApiClient,
    *,
    text: str,
    operation: str | None,
    order_id: str | None,
    payment_id: str | None,
    skip: int,
    times: int | None,
    always: bool,
    as_json: bool,
) -> None:
    """Add a rule that injects FAULT into the requests that it selects, and print it."""
    if always and times:
        raise click.UsageError("Give --times or --always, not both.")
    if payment_id is not None:
        payment_id = resolve_payment_id(client, payment_id)
    rule = client.fault(
        text,
        operation=operation,
        order_id=order_id,
        payment_id=payment_id,
        skip=skip,
        times=None if always else times or 1,
    )
    if as_json:
        echo_json(rule)
    else:
        echo(_rule_line(rule))


@fault.command("list", cls=ApiCommand)
@with_client
@as_json
def list_rules(client: ApiClient, *, as_json: bool) -> None:
    """List the rules in their order.

    Each with the number of requests that it has selected (seen) and injected its fault into (applied).
    """
    _print_rules(client, as_json=as_json)


@fault.command(cls=ApiCommand)
@with_client
@click.argument("rule_ids", metavar="[RULE_ID]...", nargs=-1)
@as_json
def clear(client: ApiClient, *, rule_ids: tuple[str, ...], as_json: bool) -> None:
    """Delete the rules with these ids, or all rules.

    Prints the rules that are left.
    """
    if not all(rule_ids):
        raise click.UsageError("A rule ID is empty.")
    for rule_id in rule_ids or (None,):
        client.clear_faults(rule_id)
    _print_rules(client, as_json=as_json)


def _print_rules(client: ApiClient, *, as_json: bool) -> None:
    rules = client.faults()
    if as_json:
        echo_json({"data": rules})
        return
    echo(*map(_rule_line, rules))
    if not rules:
        echo_note("no fault rules")


def _rule_line(rule: Json) -> str:
    return f"{fault_rule_line(rule)}  {rule['id']}"
