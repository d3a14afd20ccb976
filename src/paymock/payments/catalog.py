"""The catalog of supported chains and assets; `paymock/payments/catalog.toml` is one."""

from collections.abc import Mapping

from paymock.rules.scenarios import CONFIRMATIONS_REQUIRED
from paymock.schemas.catalog import Asset, CatalogFile, Chain


class Catalog:
    """Chains and their assets, in the order of the file."""

    def __init__(self, file: CatalogFile) -> None:
        self.chains: dict[str, Chain] = {}
        self._assets: dict[str, dict[str, Asset]] = {}
        self._other_assets: dict[tuple[str, str], str] = {}
        for row in file.chains:
            assets = [
                Asset(
                    id=asset.symbol.upper(),
                    chain=row.id,
                    symbol=asset.symbol,
                    name=asset.name,
                    decimals=asset.decimals,
                    contract_address=asset.contract_address,
                    native=asset.contract_address is None,
                )
                for asset in row.assets
            ]
            self.chains[row.id] = Chain(
                id=row.id,
                name=row.name,
                type="evm",
                chain_id=row.chain_id,
                caip2=f"eip155:{row.chain_id}",
                native_asset=next(asset.id for asset in assets if asset.native),
                confirmations_required=CONFIRMATIONS_REQUIRED,
                testnet=row.testnet,
            )
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
