"""The body of a create request, with a sensible value for whatever nobody has named."""

from collections.abc import Mapping
from typing import Any

from paymock.cli.money import one_token, usual_asset
from paymock.client.http import PAYOUT_ADDRESS, order_body

USUAL_CHAIN = "bsc"


def creation(
    order_id: str,
    *,
    chain: str = USUAL_CHAIN,
    asset: str | None = None,
    amount: str | None = None,
    address: str = PAYOUT_ADDRESS,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of `POST /v1/payments`. `amount` is in raw units; without one, it is one whole token."""
    asset = usual_asset(chain) if asset is None else asset
    amount = one_token(chain, asset) if amount is None else amount
    return {**order_body(order_id, chain, asset, amount, address), "metadata": dict(metadata or {})}
