"""Commands on payments: `create`, `payment`, `payments`, `deposit`, `wait`; and `reset`, for all of them."""

import json
import re
import secrets
import shlex
import sys
from fractions import Fraction
from typing import Any

import click

from paymock.cli.api import (
    SCENARIO,
    STATUS,
    ApiClient,
    RequestRefused,
    ServerUnreachable,
    split_payment,
    with_client,
)
from paymock.cli.options import (
    NEWEST,
    PAYMENT,
    UP_TO_A_DAY,
    Duration,
    Integer,
    as_json,
    complete_payment,
    completion,
    idempotency_key,
    metadata_option,
    payment_argument,
)
from paymock.cli.output import (
    AFTER_CREATION,
    Column,
    catalog,
    catalog_assets,
    echo,
    echo_hint,
    echo_json,
    echo_note,
    format_amount,
    format_tokens,
    next_lines,
    payment_lines,
    shortened,
    show,
    table_lines,
    terminal_width,
    truncated,
)
from paymock.client.http import DEFAULT_TIMEOUT, Unreachable
from paymock.client.sandbox import (
    DEFAULT_PAYOUT_ADDRESS,
    GRACE_PERIOD,
    NotReached,
    default_order_id,
    payment_page,
    payment_request,
)
from paymock.text import format_seconds

_TOKENS = re.compile(r"([0-9]{1,80}(?:\.[0-9]{1,80})?) ?([A-Za-z]*)")


def _check_raw(amount: str, chain: str, asset: str) -> None:
    """Warns of a tiny amount. Raises UsageError for an amount in tokens, like `1.5` or `10 USDT`."""
    match = _TOKENS.fullmatch(amount)
    asset = (match and match[2].upper()) or asset
    entry = catalog_assets(chain).get(asset)
    if match and entry:
        tokens = format_amount(str(int(Fraction(match[1]) * 10**entry.decimals)), chain, asset)
        if not amount.isdigit():
            raise click.UsageError(f"Amounts are in raw units. Did you mean {tokens}?")
        if 0 < int(amount) * 1000 < 10**entry.decimals:
            echo_note(f"Amounts are in raw units: for {amount} {asset}, use {tokens}")


_complete_chain = completion(lambda _: catalog())
_complete_asset = completion(
    lambda ctx: catalog_assets(ctx.params.get("chain") or "") or sorted(set().union(*catalog().values()))
)


def _check_asset_case(ctx: click.Context, param: click.Parameter, asset: str | None) -> str | None:
    known = set().union(*catalog().values())
    if asset and asset not in known and asset.upper() in known:
        raise click.BadParameter(f"Unknown asset {asset!r}. Did you mean {asset.upper()!r}?")
    return asset


@click.command
@with_client
@click.argument("scenario", type=SCENARIO, metavar="[SCENARIO]", required=False)
@click.option("--chain", default="bsc", shell_complete=_complete_chain, help="Chain of the payment.")
@click.option(
    "--asset",
    callback=_check_asset_case,
    shell_complete=_complete_asset,
    help="Asset of the payment. [default: USDT, or the first token of the chain]",
)
@click.option("--amount", help="What the merchant receives, in raw units. [default: one whole token]")
@click.option("--address", default=DEFAULT_PAYOUT_ADDRESS, help="Payout address of the merchant.")
@click.option("--order", "order_id", metavar="ORDER", help="Order id of the merchant. [default: a new one]")
@metadata_option(help="Entry of the metadata, or a JSON object. Repeatable.")
@idempotency_key
@click.option("--print-curl", is_flag=True, help="Print an equivalent curl command, and send nothing.")
@as_json
def create(
    client: ApiClient,
    *,
    chain: str,
    asset: str | None,
    amount: str | None,
    address: str,
    order_id: str | None,
    metadata: dict[str, Any] | None,
    scenario: str | None,
    idempotency_key: str | None,
    print_curl: bool,
    as_json: bool,
) -> None:
    """Create a payment.

    It follows SCENARIO. `paymock scenarios` lists all scenarios.
    """
    if print_curl and as_json:
        raise click.UsageError("Give --print-curl or --json, not both.")
    key = idempotency_key or f"paymock-{secrets.token_hex(12)}"
    order_id = default_order_id(key) if order_id is None else order_id
    assets = catalog_assets(chain)
    if asset is None:
        tokens = [one.id for one in assets.values() if not one.native]
        asset = "USDT" if "USDT" in assets or not tokens else tokens[0]
    if amount is None:
        amount = str(10 ** (assets[asset].decimals if asset in assets else 18))  # 18: not in the catalog
    _check_raw(amount, chain, asset)
    body = payment_request(order_id, chain, asset, amount, address) | {"metadata": metadata or {}}
    headers = {"Idempotency-Key": key} | ({} if scenario is None else {"X-Mock-Scenario": scenario})
    if print_curl:
        all_headers = {"Authorization": f"Bearer {client.api_key}", "Content-Type": "application/json"}
        words = [f"curl -sS {shlex.quote(client.url + '/v1/payments')}"]
        words += [f"-H {shlex.quote(f'{name}: {text}')}" for name, text in (all_headers | headers).items()]
        echo(*" \\\n    ".join([*words, f"-d {shlex.quote(json.dumps(body))}"]).split("\n"))
        return
    call = client.send("createPayment", body=body, headers=headers)
    try:
        payment = call.result()
    except Unreachable as unreachable:
        hint = f"To retry it safely, add --idempotency-key {key}"
        raise ServerUnreachable(str(unreachable), hint) from None
    if call.replayed:
        echo_note("This idempotency key was used before. This is the payment as it was created then.")
    if call.warning:
        echo_note(f"Warning: {call.warning}")
    show(payment, payment_lines(client, payment), as_json=as_json)
    if not as_json:
        echo_hint("", *next_lines(AFTER_CREATION))


@click.command
@with_client
@payment_argument
@click.option(
    "--at",
    type=Duration(0),
    metavar="DURATION",
    help="Show it as it is this long after its creation, without requests.",
)
@as_json
def payment(client: ApiClient, *, payment_id: str, at: float | None, as_json: bool) -> None:
    """Show a payment, its timeline and its requests.

    Shows past and upcoming changes, and marks the past ones. By default, shows the newest payment.
    """
    detail = client.detail(client.resolve(payment_id), at=at)
    lines = []
    if not as_json:
        first, *rest = payment_lines(client, detail["payment"])
        lines = [f"{first}  {detail['scenario']}", *rest]
        if at is None:  # the story is that of now
            story = client.send("getStory", query={"payment_id": detail["payment"]["id"]}).result()
            told = f"  {detail['payment']['id']}  ", "    due  ", "    deposit  "  # by payment_lines
            story = story.replace("\npayments:\n", "\ntimeline:\n")
            lines += ["", *(line for line in story.splitlines() if not line.startswith(told))]
    show(detail, lines, as_json=as_json)


@click.command
@with_client
@click.option("--status", type=STATUS, metavar="STATUS", help="Only payments in this status.")
@click.option("--scenario", type=SCENARIO, metavar="NAME", help="Only payments of this scenario.")
@click.option("--order", "order_id", metavar="ORDER", help="Only payments of this order.")
@click.option("--search", metavar="TEXT", help="Part of an order, beginning of an ID, an address or a hash.")
@click.option("--limit", type=Integer(1), default=50, help="Maximum number of payments.")
@click.option("--wide", is_flag=True, help="Show whole ids and all columns on a terminal, as in a pipe.")
@as_json
def payments(client: ApiClient, *, limit: int, wide: bool, as_json: bool, **filters: str | None) -> None:
    """List the payments of the sandbox, newest first."""
    page = payment_page(client, limit, **filters)
    data, width = page["data"], None if wide else terminal_width()
    due = []
    for item in data:
        instructions = item["attempts"][0]["instructions"]
        amount = (instructions["amounts"]["due"], instructions["chain"], instructions["asset"])
        due.append((format_tokens(*amount) if width else None) or format_amount(*amount))
    # On a terminal, the order comes first, ids are shortened, and amounts are in tokens only.
    orders, ids = [item["order_id"] for item in data], [item["id"] for item in data]
    status = Column("STATUS", [item["status"] for item in data])
    scenario = Column("SCENARIO", [item["scenario"] for item in data], 2)
    created = Column("CREATED", [item["created_at"] for item in data], 3)
    due_column = Column("DUE", due, 1)
    if width is None:
        columns = [Column("ID", ids), status, created, scenario, due_column, Column("ORDER", orders)]
    else:
        order = Column("ORDER", [truncated(name, max(14, width - 66)) for name in orders])
        columns = [order, Column("ID", [*map(shortened, ids)]), status, scenario, created, due_column]
    show(page, table_lines(columns, width) if data else [], as_json=as_json, empty="no payments")


@click.command
@with_client
@click.argument("arguments", metavar=f"[{PAYMENT}] [AMOUNT]", nargs=-1, shell_complete=complete_payment)
@click.option("--exact", is_flag=True, help="Deposit what is missing from `due`, instead of AMOUNT.")
@click.option("--half", is_flag=True, help="Deposit half of `due`, rounded down, instead of AMOUNT.")
@click.option(
    "--asset",
    callback=_check_asset_case,
    shell_complete=_complete_asset,
    help="Asset of the deposit. [default: the asset of the payment]",
)
@idempotency_key
@as_json
def deposit(
    client: ApiClient,
    *,
    arguments: tuple[str, ...],
    exact: bool,
    half: bool,
    asset: str | None,
    idempotency_key: str | None,
    as_json: bool,
) -> None:
    """Simulate a deposit.

    AMOUNT raw units arrive at once, by default for the newest payment. Two halves fund a payment, more than
    `due` leads to a review, and another asset is rejected.
    """
    payment_id, raw_amount = split_payment(arguments, has_value=exact or half)
    if sum((raw_amount is not None and raw_amount[:1].isdigit(), exact, half)) != 1:
        raise click.UsageError("Give exactly one of AMOUNT (in raw units), --exact and --half.")
    if exact and idempotency_key is not None:
        # A retry would find that nothing is missing any more.
        raise click.UsageError("--exact cannot be retried: give AMOUNT with --idempotency-key.")
    payment_id = client.resolve(payment_id)
    if raw_amount is None or not raw_amount.isdigit():
        attempt = client.payment(payment_id)["attempts"][0]
        instructions = attempt["instructions"]
        if raw_amount is None:
            due, funding = int(instructions["amounts"]["due"]), attempt.get("funding") or {}
            received = sum(
                int(funding.get(f"amount_received_{kind}", 0)) for kind in ("pending", "finalized")
            )
            if exact and received >= due:
                raise RequestRefused("nothing_missing", f"{received} of {due} raw units have already arrived")
            raw_amount = str(due - received if exact else due // 2)
        else:
            _check_raw(raw_amount, instructions["chain"], asset or instructions["asset"])
    body = {"amount": raw_amount} if asset is None else {"amount": raw_amount, "asset": asset}
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    call = client.send("makeDeposit", payment_id=payment_id, body=body, headers=headers)
    funded = call.result()
    if call.replayed:
        echo_note("This idempotency key was used before: no deposit was added.")
    show(funded, payment_lines(client, funded), as_json=as_json)


@click.command
@with_client
@payment_argument
@click.option(
    "--status",
    type=STATUS,
    metavar="STATUS",
    help="Status to wait for. [default: the next change; with --order, a payment]",
)
@click.option("--timeout", type=UP_TO_A_DAY, default=60, help="Maximum wait, in real time.")
@click.option("--order", metavar="ORDER", help="Wait for the newest payment of this order, once it exists.")
@as_json
def wait(
    client: ApiClient,
    *,
    payment_id: str,
    status: str | None,
    timeout: float,
    order: str | None,
    as_json: bool,
) -> None:
    """Wait until a payment reaches a status or changes.

    By default, waits for the newest payment. With --order but no --status, waits until the order
    has a payment. The exit status is 4 after a timeout, 1 if the change can no longer happen.
    """
    if order is not None and payment_id != NEWEST:
        raise click.UsageError("Give a payment or --order, not both.")
    target = "the next change" if order is None else "the payment"
    if order is None:
        payment_id = client.resolve(payment_id, min(timeout + GRACE_PERIOD, DEFAULT_TIMEOUT))
    echo_hint(f"waiting for {status or target}, at most {format_seconds(timeout)} s")
    try:
        if order is None:
            payment = client.wait(payment_id, status, timeout)
        else:
            payment = client.wait_for(order, status, timeout)
    except NotReached as error:
        if as_json:
            echo_json({"reached": False, "possible": error.timed_out, "payment": error.payment})
        raise
    document = {"reached": True, "possible": True, "payment": payment}
    show(document, payment_lines(client, payment), as_json=as_json)


@click.command
@with_client
@click.option("--yes", "-y", is_flag=True, help="Skip the confirmation.")
@as_json
def reset(client: ApiClient, *, yes: bool, as_json: bool) -> None:
    """Empty the sandbox.

    Deletes payments, idempotency keys, webhook endpoints, overrides, fault rules and the journal, and resets
    the clock.
    """
    if not yes and sys.stdin.isatty() and sys.stdout.isatty():
        click.confirm("Delete all payments and everything else in the sandbox?", abort=True, err=True)
    client.call("reset")
    show({"reset": True}, [], as_json=as_json, empty="the sandbox is empty")
