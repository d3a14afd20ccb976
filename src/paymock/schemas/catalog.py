"""Chains and assets, as replies and in the file of `--catalog`. Specification: "GET /v1/chains", "GET
/v1/chains/{chain}/assets".
"""

from typing import Annotated, Any, Literal

from msgspec import Meta

from paymock.schemas.fields import MAX_SAFE_INTEGER, Address, AssetId, ChainId, check, doc, matching
from paymock.schemas.public import Reply, Request


class Chain(Reply):
    """A supported chain."""

    id: ChainId
    name: Annotated[str, doc("For people.", examples=["BNB Smart Chain"])]
    type: Annotated[Literal["evm"], Meta(title="ChainType", description="The kind of a chain.")]
    chain_id: Annotated[int, doc("The EIP-155 chain id.", ge=1, examples=[56])]
    caip2: Annotated[str, doc("The CAIP-2 identifier.", examples=["eip155:56"])]
    native_asset: Annotated[AssetId, doc("The asset in which gas is paid.", examples=["BNB"])]
    confirmations_required: Annotated[int, doc("Confirmations until a deposit is final.", ge=1)]
    testnet: Annotated[bool, doc("Whether its assets are worth nothing.")]


class ChainList(Reply):
    """The supported chains."""

    data: Annotated[list[Chain], doc("In the order of the catalog.")]


class Asset(Reply):
    """An asset of a chain."""

    id: AssetId
    chain: ChainId
    symbol: Annotated[str, doc("As people write it.", examples=["USDT"])]
    name: Annotated[str, doc("For people.", examples=["Tether USD"])]
    decimals: Annotated[int, doc("How many raw units, as a power of ten, make one token.", ge=0, le=77)]
    contract_address: Annotated[Address | None, doc("`null` for the chain's own coin.")]
    native: Annotated[bool, doc("Whether this is the chain's own coin.")]


class AssetList(Reply):
    """The assets of a chain."""

    data: Annotated[list[Asset], doc("In the order of the catalog.")]


def assets_problem(assets: list[Any]) -> str | None:
    if len({asset["symbol"].upper() for asset in assets}) < len(assets):
        return "must not have the same symbol twice"
    natives = sum(asset.get("contract_address") is None for asset in assets)
    return None if natives == 1 else "must have one native asset, that is, without a contract_address"


class CatalogAsset(Request):
    """An asset in a file. It is native without a `contract_address`."""

    symbol: Annotated[str, matching("^[A-Za-z0-9.]{1,16}$", "must be 1 to 16 of A-Z a-z 0-9 and the dot")]
    name: str
    decimals: Annotated[int, Meta(ge=0, le=77)]
    contract_address: Address | None = None


class CatalogChain(Request):
    """A chain in a file. The scenario `asset_mismatch` needs a second asset."""

    id: Annotated[str, matching("^[a-z0-9_-]{1,32}$", "must be 1 to 32 of a-z 0-9 _ -")]
    name: str
    chain_id: Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)]
    testnet: bool
    assets: Annotated[list[CatalogAsset], Meta(min_length=2, extra={"check": assets_problem})]


class CatalogFile(Request):
    """The file of `--catalog`."""

    chains: Annotated[
        list[CatalogChain],
        Meta(
            min_length=1,
            extra=check(
                lambda chains: len({chain["id"] for chain in chains}) == len(chains),
                "must not have the same id twice",
            ),
        ),
    ]
