"""The records of new payments and webhook endpoints, from the bodies of their requests."""

from typing import Any

import msgspec

from paymock.payments.files import Catalog
from paymock.payments.records import EndpointRecord, PaymentRecord
from paymock.rules.amounts import MAX_RAW, RAW, fee_for
from paymock.rules.scenarios import Scenario, stored_scenario
from paymock.rules.times import LATEST, parse_rfc3339, to_rfc3339
from paymock.schemas.fields import ANY_EVENT
from paymock.schemas.public import CreatePayment, CreateWebhookEndpoint
from paymock.schemas.validation import Problems, checker_for, converter_for, validate, validation_failed

DEFAULT_LIFETIME = 30 * 60_000
"""From creation to `expires_at` when the request has none, in milliseconds."""

_convert, _check = converter_for(CreatePayment), checker_for(CreatePayment)
_check_endpoint = checker_for(CreateWebhookEndpoint)


class CreationContext(msgspec.Struct, frozen=True):
    """What a record contains besides the request. `now` and `real`, the system's time: milliseconds."""

    token: str
    fingerprint: bytes
    scenario: Scenario
    now: int
    real: int = LATEST


def create_record(body: Any, context: CreationContext, catalog: Catalog, fee_bps: int) -> PaymentRecord:
    """The record of a new payment for `body`, a decoded JSON value, with a fee of `fee_bps` basis points.

    Raises PaymockError `validation_failed` with every problem. Specification: "Create-payment request body".
    """
    problems: Problems = {}
    request = _convert(body)
    if request is None:
        _check(body, "", problems)
        is_valid_route = False
    else:
        receive, [pay_with], refund_to = request.receive, request.pay_with, request.refund_to
        is_valid_route = (
            catalog.has_asset(receive.chain, receive.asset)
            and pay_with.chain == receive.chain
            and pay_with.asset == receive.asset
            and (refund_to is None or refund_to.chain in catalog.chains)
        )
    if not is_valid_route:
        _check_route(body, catalog, problems)
    expires_at = request.expires_at if request else _text_at(body, "expires_at")
    expiry = parse_rfc3339(expires_at) if expires_at is not None else None
    if expiry is not None and expiry <= min(context.now, context.real):  # a client may follow either clock
        now = to_rfc3339(context.now)
        problems.setdefault("expires_at", f"must be in the future; the mock's clock says {now}")
    amount = request.receive.amount if request else _text_at(body, "receive", "amount")
    due = fee = 0
    if amount is not None and "receive.amount" not in problems:
        fee = fee_for(int(amount), fee_bps)
        due = int(amount) + fee
        if due > MAX_RAW:
            problems["receive.amount"] = "must fit in 256 bits together with the fee"
    if problems:
        raise validation_failed(problems)
    request = request or msgspec.convert(body, CreatePayment)
    receive, refund_to = request.receive, request.refund_to
    return PaymentRecord(
        token=context.token,
        fingerprint=context.fingerprint,
        created_at=context.now,
        scenario=context.scenario.name,
        order_id=request.order_id,
        chain=receive.chain,
        asset=receive.asset,
        amount=receive.amount,
        address=receive.address,
        refund_to=(refund_to.chain, refund_to.address) if refund_to else None,
        expires_at=request.expires_at,
        metadata=request.metadata,
        due=str(due),
        fee=str(fee),
        other_asset=catalog.another_asset(receive.chain, receive.asset),
        custom_scenario=stored_scenario(context.scenario),
    )


def create_endpoint_record(body: Any, token: str, fingerprint: bytes, now: int) -> EndpointRecord:
    """`now`: milliseconds since the epoch. Raises PaymockError `validation_failed` with every problem."""
    request = validate(_check_endpoint, body, CreateWebhookEndpoint)
    return EndpointRecord(
        token=token,
        fingerprint=fingerprint,
        created_at=now,
        url=request.url,
        events=request.events or [ANY_EVENT],
        description=request.description,
    )


def _check_route(body: Any, catalog: Catalog, problems: Problems) -> None:
    receive = _text_at(body, "receive", "chain"), _text_at(body, "receive", "asset")
    pay_with = _text_at(body, "pay_with", 0, "chain"), _text_at(body, "pay_with", 0, "asset")
    refund_to = _text_at(body, "refund_to", "chain"), None
    for path, (chain, asset) in (("receive", receive), ("pay_with[0]", pay_with), ("refund_to", refund_to)):
        if chain is None:
            continue
        assets = catalog.assets(chain)
        if assets is None:
            problem = f"is not a supported chain; known: {', '.join(catalog.chains)}"
            problems.setdefault(f"{path}.chain", problem)
        elif asset is not None and asset not in assets:
            problems.setdefault(f"{path}.asset", catalog.unknown_asset(chain, asset))
    for name, received, paid in zip(("chain", "asset"), receive, pay_with, strict=True):
        if None not in (received, paid) and received != paid:
            problem = f"must be the same as receive.{name}: there is no other route"
            problems.setdefault(f"pay_with[0].{name}", problem)
    chain, asset = receive
    known = (catalog.assets(chain) or {}).get(asset) if chain and asset else None
    amount = _value_at(body, "receive", "amount")
    if known and type(amount) in (str, int, float) and not RAW.fullmatch(str(amount)):
        problems["receive.amount"] += f'; 1 {asset} on {chain} is "{10**known.decimals}"'


def _text_at(body: Any, *path: str | int) -> str | None:
    """The string at `path`, or None where there is none."""
    value = _value_at(body, *path)
    return value if isinstance(value, str) else None


def _value_at(body: Any, *path: str | int) -> Any:
    try:
        for step in path:
            body = body[step]
    except (KeyError, IndexError, TypeError):
        return None
    return body
