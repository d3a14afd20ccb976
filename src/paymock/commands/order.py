"""The body of a create request, with a sensible value for whatever nobody has named."""

from collections.abc import Mapping
from typing import Any

from paymock.commands.money import one_token, usual_asset
from paymock.core.wire import SETTLEMENT_MODE

USUAL_CHAIN = "bsc"
USUAL_ADDRESS = "0x5aAeb6053F3E94C9b9A09f33669435E7Ef1BeAed"


def creation(
    order_id: str,
    *,
    chain: str = USUAL_CHAIN,
    asset: str | None = None,
    amount: str | None = None,
    address: str = USUAL_ADDRESS,
    metadata: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The body of `POST /v1/payments`. `amount` is in raw units; without one, it is one whole token."""
    asset = usual_asset(chain) if asset is None else asset
    return {
        "order_id": order_id,
        "receive": {
            "chain": chain,
            "asset": asset,
            "amount": one_token(chain, asset) if amount is None else amount,
            "address": address,
        },
        "settlement": {"mode": SETTLEMENT_MODE},
        "pay_with": [{"chain": chain, "asset": asset}],
        "metadata": dict(metadata or {}),
    }
