"""The catalog of supported chains and assets; `paymock/payments/catalog.toml` is one."""

from collections.abc import Mapping

from paymock.rules.scenarios import CONFIRMATIONS_REQUIRED
from paymock.schemas.catalog import Asset, CatalogAsset, CatalogChain, CatalogFile, Chain


class Catalog:
    """Chains and their assets, in the order of the file."""

    def __init__(self, file: CatalogFile) -> None:
        self.chains: Mapping[str, Chain] = {row.id: _chain_of(row) for row in file.chains}
        self._assets: dict[str, dict[str, Asset]] = {}
        self._other_assets: dict[tuple[str, str], str] = {}
        for row in file.chains:
            assets = [_asset_of(row.id, asset) for asset in row.assets]
            self._assets[row.id] = {asset.id: asset for asset in assets}
            for asset in assets:
                others = [other for other in assets if other is not asset]
                self._other_assets[row.id, asset.id] = min(others, key=lambda other: other.native).id

    def assets(self, chain: str) -> Mapping[str, Asset] | None:
        """The assets of `chain` by their id, or None when the chain is not supported."""
        return self._assets.get(chain)

    def has_asset(self, chain: str, asset: str) -> bool:
        return (chain, asset) in self._other_assets

    def unknown_asset(self, chain: str) -> str:
        return f"is not an asset of the chain {chain}; known: {', '.join(self._assets[chain])}"

    def another_asset(self, chain: str, asset: str) -> str:
        """The id of an asset of `chain` that is not `asset`: a token if there is one, else the native coin.
        Specification: scenario `asset_mismatch`.
        """
        return self._other_assets[chain, asset]


def _chain_of(row: CatalogChain) -> Chain:
    native = next(asset.symbol.upper() for asset in row.assets if asset.contract_address is None)
    return Chain(
        id=row.id,
        name=row.name,
        type="evm",
        chain_id=row.chain_id,
        caip2=f"eip155:{row.chain_id}",
        native_asset=native,
        confirmations_required=CONFIRMATIONS_REQUIRED,
        testnet=row.testnet,
    )


def _asset_of(chain: str, row: CatalogAsset) -> Asset:
    return Asset(
        id=row.symbol.upper(),
        chain=chain,
        symbol=row.symbol,
        name=row.name,
        decimals=row.decimals,
        contract_address=row.contract_address,
        native=row.contract_address is None,
    )
