"""`create`, `payment`, `payments`, `deposit`: payments, made and shown."""

import json
import secrets
import shlex
from typing import Any

import click

from paymock.cli.api_client import Client
from paymock.cli.errors import Command, Unanswered
from paymock.cli.money import amount
from paymock.cli.options import NEWEST, SCENARIO, STATUS, as_json, found, idempotency_key, with_client
from paymock.cli.order import USUAL_CHAIN, creation
from paymock.cli.output import detail_lines, note, payment_lines, say, say_json
from paymock.client.http import PAYOUT_ADDRESS, Unreachable, order_of, path_of
from paymock.schemas.control import PaymentDetail, PaymentPage
from paymock.schemas.public import Payment

_LARGEST_PAGE = 200


def _entries(ctx: click.Context, param: click.Parameter, values: tuple[str, ...]) -> dict[str, Any]:
    """What KEY=VALUE and whole JSON objects say together; the last one wins."""
    entries: dict[str, Any] = {}
    for text in values:
        key, equals, value = text.partition("=")
        if text.startswith("{"):
            try:
                entries |= json.loads(text)
            except (ValueError, RecursionError):
                raise click.BadParameter("is not a JSON object") from None
        elif equals:
            entries[key] = value
        else:
            raise click.BadParameter("must be KEY=VALUE or a JSON object")
    return entries


@click.command(cls=Command)
@with_client
@click.option("--chain", default=USUAL_CHAIN, show_default=True, help="Where the payment is made.")
@click.option("--asset", help="What is paid. [default: USDT, or the first token of the chain]")
@click.option("--amount", help="What the merchant receives, in raw units. [default: one whole token]")
@click.option("--address", default=PAYOUT_ADDRESS, show_default=True, help="The merchant's payout address.")
@click.option("--order-id", metavar="TEXT", help="The merchant's order. [default: a new one]")
@click.option(
    "--metadata",
    callback=_entries,
    multiple=True,
    metavar="KEY=VALUE",
    help="An entry of the metadata, or a JSON object. Repeatable.",
)
@click.option("--scenario", type=SCENARIO, metavar="NAME", help="The course; `paymock scenarios` lists them.")
@idempotency_key
@click.option("--print-curl", is_flag=True, help="Print a curl command that does it, and do nothing.")
@as_json
def create(
    client: Client,
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
    key = idempotency_key or f"paymock-{secrets.token_hex(12)}"
    order_id = order_of(key) if order_id is None else order_id
    body = creation(order_id, chain=chain, asset=asset, amount=amount, address=address, metadata=metadata)
    headers = {"Idempotency-Key": key} | ({} if scenario is None else {"X-Mock-Scenario": scenario})
    if print_curl:
        say(*curl(client, body, headers))
        return
    call = client.call(Payment, "POST", "/v1/payments", body=body, headers=headers)
    try:
        payment = call.result()
    except Unreachable as lost:
        raise Unanswered(str(lost), f"To repeat it safely, add --idempotency-key {key}") from None
    if call.replayed:
        note("This idempotency key was used before: this is the payment as it was created then.")
    if as_json:
        say_json(payment)
    else:
        say(*payment_lines(payment))


def curl(client: Client, body: Any, headers: dict[str, str]) -> list[str]:
    """The lines of a command for a POSIX shell that creates the payment of `body`."""
    sent = {"Authorization": f"Bearer {client.api_key}", "Content-Type": "application/json", **headers}
    words = [f"curl -sS {shlex.quote(client.url + '/v1/payments')}"]
    words += [f"-H {shlex.quote(f'{name}: {value}')}" for name, value in sent.items()]
    words += [f"-d {shlex.quote(json.dumps(body))}"]
    return " \\\n    ".join(words).split("\n")


@click.command(cls=Command)
@with_client
@click.argument("payment_id", metavar="[ID]", default=NEWEST)
@as_json
def payment(client: Client, *, payment_id: str, as_json: bool) -> None:
    """Show a payment and its course.

    Past and to come; what has happened is marked. Without ID, the newest payment.
    """
    detail = client.get(PaymentDetail, path_of(found(client, payment_id)))
    if as_json:
        say_json(detail)
    else:
        say(*detail_lines(detail))


@click.command(cls=Command)
@with_client
@click.option("--status", type=STATUS, metavar="STATUS", help="Only payments that stand here.")
@click.option("--scenario", type=SCENARIO, metavar="NAME", help="Only payments of this scenario.")
@click.option("--order-id", metavar="TEXT", help="Only payments of this order.")
@click.option("--limit", type=click.IntRange(1), default=50, show_default=True, help="How many.")
@as_json
def payments(client: Client, *, limit: int, as_json: bool, **filters: str | None) -> None:
    """List the payments of the sandbox, the newest first."""
    page = PaymentPage(data=[], next_cursor=None)
    while True:
        query = {**filters, "limit": min(limit - len(page.data), _LARGEST_PAGE), "cursor": page.next_cursor}
        more = client.get(PaymentPage, "/_mock/payments", query=query)
        page = PaymentPage(data=page.data + more.data, next_cursor=more.next_cursor)
        if page.next_cursor is None or len(page.data) >= limit:
            break
    if as_json:
        say_json(page)
        return
    for one in page.data:
        asked = one.attempts[0].instructions
        due = amount(asked.amounts.due, asked.chain, asked.asset)
        say(f"{one.id}  {one.status:<20}  {one.created_at}  {due}  {one.order_id}")
    if not page.data:
        note("no payments")


@click.command(cls=Command)
@with_client
@click.argument("payment_id", metavar="ID")
@click.argument("raw_amount", metavar="AMOUNT")
@click.option("--asset", help="What arrives. [default: the asset that was asked for]")
@idempotency_key
@as_json
def deposit(
    client: Client,
    *,
    payment_id: str,
    raw_amount: str,
    asset: str | None,
    idempotency_key: str | None,
    as_json: bool,
) -> None:
    """Simulate a deposit.

    AMOUNT raw units arrive for the payment ID now; ID is an id, or `newest`. The rules decide what comes of
    it: two halves fund a payment, too much goes to review, another asset is rejected.
    """
    body = {"amount": raw_amount} if asset is None else {"amount": raw_amount, "asset": asset}
    headers = {} if idempotency_key is None else {"Idempotency-Key": idempotency_key}
    path = path_of(found(client, payment_id), "deposits")
    call = client.call(Payment, "POST", path, body=body, headers=headers)
    after = call.result()
    if call.replayed:
        note("This idempotency key was used before: nothing arrived now.")
    if as_json:
        say_json(after)
    else:
        say(*payment_lines(after))
