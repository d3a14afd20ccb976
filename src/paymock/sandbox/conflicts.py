"""A request that repeats an idempotency key: a replay, or the text of its 409."""

from collections.abc import Iterator
from itertools import islice, product
from typing import Any

import msgspec
from msgspec.structs import fields

from paymock.payments import records
from paymock.payments.records import EndpointRecord, PaymentRecord, Record
from paymock.payments.views import render_endpoint, states, view
from paymock.rules import identifiers
from paymock.rules.errors import ERRORS, PaymockError
from paymock.sandbox.snapshot import Creation, KeyedRequest, R, SandboxSnapshot
from paymock.schemas.control import MakeDeposit
from paymock.schemas.json import differing_paths, fingerprint
from paymock.schemas.public import CreatePayment, CreateWebhookEndpoint
from paymock.text import escape_control

CONFLICT = "idempotency_key_reused_with_different_payload"

MAX_DIFFERING = 5
"""How many differing paths a conflict names."""


def replay_of(
    stored: bytes, request: KeyedRequest, kind: type[R], snapshot: SandboxSnapshot, asset: str | None = None
) -> Creation[R]:
    """Return the existing resource that `request` repeats; `asset` is that of the payment of a deposit.
    Raises PaymockError, the idempotency conflict.
    """
    existing = records.decode(stored)
    if existing.fingerprint == request.fingerprint and isinstance(existing, kind):
        return Creation(existing, stored, replayed=True, snapshot=snapshot)
    raise conflict(existing, request, asset)


def conflict(existing: Record, request: KeyedRequest, asset: str | None = None) -> PaymockError:
    """The error of a request whose key has created another record. It names what differs, and no values."""
    path, bodies = requests_of(existing, asset)
    differs: list[str] = []
    reason = f"on POST {path}"
    if fingerprint("POST", path, request.body) == request.fingerprint:
        originals = (body for body in bodies if fingerprint("POST", path, body) == existing.fingerprint)
        paths = differing_paths(next(originals, request.body), request.body)
        first = [escape_control(f"{one:.100}") for one in islice(paths, MAX_DIFFERING)]
        differs = [*dict.fromkeys(first)]  # a dot may be part of a name in metadata
        reason = "with a different request body"
        if differs:
            more = " and more" if any(paths) else ""
            verb = "differs" if len(differs) == 1 else "differ"
            reason += f": {', '.join(f'`{one}`' for one in differs)}{more} {verb}"
    message = f"This Idempotency-Key was already used {reason}. {ERRORS[CONFLICT].remedy}"
    return PaymockError(CONFLICT, message, differs=differs)


def requests_of(record: Record, asset: str | None = None) -> tuple[str, Iterator[dict[str, Any]]]:
    """The path of the request that created a record, and all bodies that it can have had: optional members
    may have been given, null or absent. `asset` is that of the payment of a deposit.
    """
    shown: Any
    body: Any = CreatePayment
    if isinstance(record, PaymentRecord):
        path, shown = "/v1/payments", view(record, states(record)[0])
    elif isinstance(record, EndpointRecord):
        path, shown, body = "/v1/webhooks", render_endpoint(record), CreateWebhookEndpoint
    else:
        path = f"/_mock/payments/{identifiers.PAYMENT_PREFIX}{record.payment}/deposits"
        shown = body = MakeDeposit(amount=record.amount, asset=record.other_asset or asset)
    values: dict[str, Any] = msgspec.to_builtins(shown)
    choices = [
        [{field.name: values[field.name]}, *(() if field.required else ({field.name: None}, {}))]
        for field in fields(body)
    ]
    return path, ({name: one[name] for one in chosen for name in one} for chosen in product(*choices))
