"""The reply bodies of chains and assets, of which a catalog consists. Specification: "GET /v1/chains", "GET
/v1/chains/{chain}/assets".
"""

from typing import Annotated, Literal

from msgspec import Meta

from paymock.schemas.fields import Address, AssetId, ChainId
from paymock.schemas.public import Reply


class Chain(Reply):
    """A supported chain."""

    id: ChainId
    name: Annotated[str, Meta(description="For people.", examples=["BNB Smart Chain"])]
    type: Annotated[Literal["evm"], Meta(title="ChainType", description="The kind of a chain.")]
    chain_id: Annotated[int, Meta(description="The EIP-155 chain id.", ge=1, examples=[56])]
    caip2: Annotated[str, Meta(description="The CAIP-2 identifier.", examples=["eip155:56"])]
    native_asset: Annotated[AssetId, Meta(description="The asset in which gas is paid.", examples=["BNB"])]
    confirmations_required: Annotated[int, Meta(description="Confirmations until a deposit is final.", ge=1)]
    testnet: Annotated[bool, Meta(description="Whether its assets are worth nothing.")]


class ChainList(Reply):
    """The supported chains."""

    data: Annotated[list[Chain], Meta(description="In the order of the catalog.")]


class Asset(Reply):
    """An asset of a chain."""

    id: AssetId
    chain: ChainId
    symbol: Annotated[str, Meta(description="As people write it.", examples=["USDT"])]
    name: Annotated[str, Meta(description="For people.", examples=["Tether USD"])]
    decimals: Annotated[
        int, Meta(description="How many raw units, as a power of ten, make one token.", ge=0, le=77)
    ]
    contract_address: Annotated[Address | None, Meta(description="`null` for the chain's own coin.")]
    native: Annotated[bool, Meta(description="Whether this is the chain's own coin.")]


class AssetList(Reply):
    """The assets of a chain."""

    data: Annotated[list[Asset], Meta(description="In the order of the catalog.")]
