"""Commands on payments: `create`, `payment`, `payments`, `deposit` and `wait`."""

import json
import secrets
import shlex
from collections.abc import Iterable, Sequence
from typing import Any

import click

from paymock.cli.api import (
    SCENARIO,
    STATUS,
    ApiClient,
    RequestRefused,
    ServerUnreachable,
    split_payment_id,
    with_client,
)
from paymock.cli.options import (
    NEWEST,
    SECONDS_OF_A_DAY,
    as_json,
    complete_newest,
    completion,
    idempotency_key,
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
    show,
    show_payment,
    table_lines,
    terminal_width,
)
from paymock.client.http import DEFAULT_TIMEOUT, Json, Unreachable
from paymock.client.sandbox import (
    DEFAULT_PAYOUT_ADDRESS,
    GRACE_PERIOD,
    NotReached,
    default_order_id,
    payment_request,
)
from paymock.client.text import format_seconds, marked_timeline_line
from paymock.schemas.control import MAX_PAGE

_DEFAULT_CHAIN = "bsc"
_DEFAULT_ASSET = "USDT"
_DEFAULT_DECIMALS = 18


def default_asset(chain: str) -> str:
    """USDT, or the first token of a chain that has no USDT."""
    assets = catalog_assets(chain)
    tokens = [asset.id for asset in assets.values() if not asset.native]
    return _DEFAULT_ASSET if _DEFAULT_ASSET in assets or not tokens else tokens[0]


def one_token(chain: str, asset: str) -> str:
    """One whole token in raw units; an unknown asset is taken to have 18 decimals."""
    entry = catalog_assets(chain).get(asset)
    return str(10 ** (_DEFAULT_DECIMALS if entry is None else entry.decimals))


def _assets(ctx: click.Context) -> Iterable[str]:
    chain = ctx.params.get("chain")
    return catalog_assets(chain) if chain else sorted(set().union(*catalog().values()))


_complete_chain = completion(lambda _: catalog())
_complete_asset = completion(_assets)


def _parse_metadata(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """Merge entries KEY=VALUE and JSON objects; the last value of a key wins."""
    metadata: dict[str, Any] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if text.startswith("{"):
            try:
                metadata |= json.loads(text)
            except (ValueError, RecursionError):
                raise click.BadParameter("is not a JSON object") from None
        elif equals:
            metadata[key] = value
        else:
            raise click.BadParameter("must be KEY=VALUE or a JSON object")
    return metadata


@click.command
@with_client
@click.option("--chain", default=_DEFAULT_CHAIN, shell_complete=_complete_chain, help="Chain of the payment.")
@click.option(
    "--asset",
    shell_complete=_complete_asset,
    help="Asset of the payment. [default: USDT, or the first token of the chain]",
)
@click.option("--amount", help="What the merchant receives, in raw units. [default: one whole token]")
@click.option("--address", default=DEFAULT_PAYOUT_ADDRESS, help="Payout address of the merchant.")
@click.option("--order-id", metavar="TEXT", help="Order of the merchant. [default: a new one]")
@click.option(
    "--metadata",
    callback=_parse_metadata,
    multiple=True,
    metavar="KEY=VALUE",
    help="Entry of the metadata, or a JSON object. Repeatable.",
)
@click.option("--scenario", type=SCENARIO, metavar="NAME", help="Scenario; `paymock scenarios` lists them.")
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
    metadata: dict[str, Any],
    scenario: str | None,
    idempotency_key: str | None,
    print_curl: bool,
    as_json: bool,
) -> None:
    """Create a payment."""
    if print_curl and as_json:
        raise click.UsageError("Give --print-curl or --json, not both.")
    key = idempotency_key or f"paymock-{secrets.token_hex(12)}"
    order_id = default_order_id(key) if order_id is None else order_id
    asset = default_asset(chain) if asset is None else asset
    amount = one_token(chain, asset) if amount is None else amount
    body = payment_request(order_id, chain, asset, amount, address) | {"metadata": metadata}
    headers = {"Idempotency-Key": key} | ({} if scenario is None else {"X-Mock-Scenario": scenario})
    if print_curl:
        echo(*_curl_lines(client, body, headers))
        return
    call = client.send("createPayment", body=body, headers=headers)
    try:
        payment = call.result()
    except Unreachable as unreachable:
        hint = f"To retry it safely, add --idempotency-key {key}"
        raise ServerUnreachable(str(unreachable), hint) from None
    if call.replayed:
        echo_note("This idempotency key was used before: this is the payment as it was created then.")
    if call.warning:
        echo_note(f"Warning: {call.warning}")
    show_payment(client, payment, as_json=as_json)
    if not as_json:
        echo_hint("", *next_lines(AFTER_CREATION))


def _curl_lines(client: ApiClient, body: Any, headers: dict[str, str]) -> list[str]:
    """The lines of a POSIX shell command that sends this creation."""
    all_headers = {"Authorization": f"Bearer {client.api_key}", "Content-Type": "application/json", **headers}
    words = [f"curl -sS {shlex.quote(client.url + '/v1/payments')}"]
    words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in all_headers.items()]
    words += [f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n    ".join(words).split("\n")


@click.command
@with_client
@payment_argument
@as_json
def payment(client: ApiClient, *, payment_id: str, as_json: bool) -> None:
    """Show a payment and its timeline.

    Past and upcoming changes; past ones are marked. Without ID, the newest payment.
    """
    detail = client.detail(client.resolve(payment_id))
    first, *rest = payment_lines(client, detail["payment"])
    timeline = [f"  {marked_timeline_line(entry)}" for entry in detail["timeline"]]
    show(detail, [f"{first}  {detail['scenario']}", *rest, "", *timeline], as_json=as_json)


@click.command
@with_client
@click.option("--status", type=STATUS, metavar="STATUS", help="Only payments in this status.")
@click.option("--scenario", type=SCENARIO, metavar="NAME", help="Only payments of this scenario.")
@click.option("--order-id", metavar="TEXT", help="Only payments of this order.")
@click.option("--search", metavar="PREFIX", help="Only payments whose order or ID begins with this text.")
@click.option("--limit", type=click.IntRange(1), default=50, help="Maximum number of payments.")
@as_json
def payments(client: ApiClient, *, limit: int, as_json: bool, **filters: str | None) -> None:
    """List the payments of the sandbox, newest first."""
    page: Json = {"data": [], "next_cursor": None}
    while True:
        page_size = min(limit - len(page["data"]), MAX_PAGE)
        query = {**filters, "limit": page_size, "cursor": page["next_cursor"]}
        next_page = client.call("listPayments", query=query)
        page = next_page | {"data": page["data"] + next_page["data"]}
        if page["next_cursor"] is None or len(page["data"]) >= limit:
            break
    lines = _payment_table(page["data"], terminal_width()) if page["data"] else []
    show(page, lines, as_json=as_json, empty="no payments")


def _payment_table(payments: Sequence[Json], width: int | None) -> list[str]:
    """A header and a line for each payment. On a terminal, amounts are in tokens only."""
    due = []
    for item in payments:
        instructions = item["attempts"][0]["instructions"]
        amount = (instructions["amounts"]["due"], instructions["chain"], instructions["asset"])
        due.append((format_tokens(*amount) if width else None) or format_amount(*amount))
    columns = [
        Column("ID", [item["id"] for item in payments]),
        Column("STATUS", [item["status"] for item in payments]),
        Column("CREATED", [item["created_at"] for item in payments], 4),
        Column("SCENARIO", [item["scenario"] for item in payments], 3),
        Column("DUE", due, 2),
        Column("ORDER", [item["order_id"] for item in payments], 1),
    ]
    return table_lines(columns, width)


@click.command
@with_client
@click.argument("arguments", metavar="[ID] [AMOUNT]", nargs=-1, shell_complete=complete_newest)
@click.option("--exact", is_flag=True, help="Deposit what is missing of `due`, in place of AMOUNT.")
@click.option("--half", is_flag=True, help="Deposit half of `due`, rounded down, in place of AMOUNT.")
@click.option(
    "--asset",
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

    AMOUNT raw units arrive for the payment ID now. Without ID, for the newest payment. Two halves fund a
    payment, an excess leads to a review, and another asset is rejected.
    """
    payment_id, raw_amount = split_payment_id(arguments)
    if sum((raw_amount is not None, exact, half)) != 1:
        raise click.UsageError("Give one of AMOUNT, --exact and --half.")
    if exact and idempotency_key is not None:
        # A retry would find that nothing is missing any more.
        raise click.UsageError("--exact cannot be retried: give AMOUNT with --idempotency-key.")
    payment_id = client.resolve(payment_id)
    if raw_amount is None:
        attempt = client.payment(payment_id)["attempts"][0]
        due = int(attempt["instructions"]["amounts"]["due"])
        raw_amount = str(_missing_amount(due, attempt.get("funding")) if exact else due // 2)
    body = {"amount": raw_amount} if asset is None else {"amount": raw_amount, "asset": asset}
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    call = client.send("makeDeposit", payment_id=payment_id, body=body, headers=headers)
    funded = call.result()
    if call.replayed:
        echo_note("This idempotency key was used before: no deposit was added.")
    show_payment(client, funded, as_json=as_json)


def _missing_amount(due: int, funding: Json | None) -> int:
    """What is missing of `due`, in raw units. Raises RequestRefused if nothing is."""
    received = 0
    if funding is not None:
        received = int(funding["amount_received_pending"]) + int(funding["amount_received_finalized"])
    if received >= due:
        raise RequestRefused(f"nothing is missing: {received} raw units of {due} have arrived")
    return due - received


@click.command
@with_client
@payment_argument
@click.option(
    "--status",
    type=STATUS,
    metavar="STATUS",
    help="Status to wait for. [default: the next change; with --order, a payment]",
)
@click.option(
    "--timeout", type=SECONDS_OF_A_DAY, default=60, metavar="SECONDS", help="Maximum wait, in real time."
)
@click.option("--order", metavar="ORDER", help="The newest payment of this order, which need not exist yet.")
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

    Without ID and --order, waits for the newest payment. With --order but no --status, waits until the order
    has a payment. Exit status 4 after a timeout, 1 when the change can no longer happen.
    """
    if order is not None and payment_id != NEWEST:
        raise click.UsageError("Give ID or --order, not both.")
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
