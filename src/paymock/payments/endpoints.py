"""Webhook endpoints: stored and listed, never called. Specification: "Events", "POST /v1/webhooks"."""

from typing import Any

import msgspec

from paymock.payments.records import EndpointRecord
from paymock.rules import identifiers
from paymock.rules.times import to_rfc3339
from paymock.schemas.fields import ANY_EVENT
from paymock.schemas.public import CreatedWebhookEndpoint, CreateWebhookEndpoint, WebhookEndpoint
from paymock.schemas.validation import checker_for, validate

MAX_ENDPOINTS = 100
"""The maximum number of endpoints in a sandbox."""

_check = checker_for(CreateWebhookEndpoint)


def create_record(body: Any, token: str, fingerprint: bytes, now: int) -> EndpointRecord:
    """The record of a new endpoint for `body`, a decoded JSON value, at `now`, in milliseconds since the
    epoch. Raises PaymockError `validation_failed` with every problem of the body.
    """
    request = validate(_check, body, CreateWebhookEndpoint)
    return EndpointRecord(
        token=token,
        fingerprint=fingerprint,
        created_at=now,
        url=request.url,
        events=request.events or [ANY_EVENT],
        description=request.description,
    )


def render(record: EndpointRecord) -> WebhookEndpoint:
    """The endpoint as a reply body, without its secret."""
    return WebhookEndpoint(
        id=identifiers.ENDPOINT_PREFIX + record.token,
        url=record.url,
        events=record.events,
        description=record.description,
        status="enabled",
        created_at=to_rfc3339(record.created_at),
    )


def render_created(record: EndpointRecord) -> CreatedWebhookEndpoint:
    """The body of the create reply, the only one with the secret."""
    secret = identifiers.webhook_secret(record.token)
    return CreatedWebhookEndpoint(**msgspec.structs.asdict(render(record)), secret=secret)
