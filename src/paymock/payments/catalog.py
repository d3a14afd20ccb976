"""The catalog of supported chains and assets, and its validation; `paymock/payments/catalog.toml` is one."""

import re
from collections.abc import Mapping
from typing import Any

import msgspec

from paymock.rules.addresses import address_problem
from paymock.rules.scenarios import CONFIRMATIONS_REQUIRED
from paymock.schemas.catalog import Asset, Chain

_CHAIN_ID = re.compile("[a-z0-9_-]{1,32}")
_SYMBOL = re.compile("[A-Za-z0-9.]{1,16}")
_MAX_CHAIN_ID = 2**53 - 1
"""The largest integer that every JSON parser reads exactly."""


class CatalogError(ValueError):
    """An invalid catalog. The message names the place and the problem."""


class _AssetRow(msgspec.Struct, forbid_unknown_fields=True):
    symbol: str
    name: str
    decimals: int
    contract_address: str | None = None


class _ChainRow(msgspec.Struct, forbid_unknown_fields=True):
    id: str
    name: str
    chain_id: int
    testnet: bool
    assets: list[_AssetRow]


class _File(msgspec.Struct, forbid_unknown_fields=True):
    chains: list[_ChainRow]


class Catalog:
    """Chains and their assets, in the order of the file."""

    def __init__(self, assets: Mapping[str, tuple[Asset, ...]], chains: Mapping[str, Chain]) -> None:
        self.chains = chains
        self._assets = {chain: {asset.id: asset for asset in listed} for chain, listed in assets.items()}
        self._other_assets = {
            (chain, asset.id): min(
                (other for other in listed if other is not asset), key=lambda other: other.native
            ).id
            for chain, listed in assets.items()
            for asset in listed
        }

    @classmethod
    def parse(cls, document: Mapping[str, Any]) -> "Catalog":
        """The catalog of a decoded TOML document. Raises CatalogError."""
        try:
            rows = msgspec.convert(document, _File).chains
        except msgspec.ValidationError as error:
            raise CatalogError(str(error)) from None
        _require(rows, "there must be at least one chain")
        _require(len({row.id for row in rows}) == len(rows), "two chains have the same id")
        return cls({row.id: tuple(_assets_of(row)) for row in rows}, {row.id: _chain_of(row) for row in rows})

    def assets(self, chain: str) -> Mapping[str, Asset] | None:
        """The assets of `chain` by their id, or None when the chain is not supported."""
        return self._assets.get(chain)

    def has_asset(self, chain: str, asset: str) -> bool:
        """Whether `asset` is an asset of `chain`."""
        return (chain, asset) in self._other_assets

    def unknown_asset(self, chain: str) -> str:
        """The problem of an id that is not one of an asset of `chain`, a supported chain."""
        return f"is not an asset of the chain {chain}; known: {', '.join(self._assets[chain])}"

    def another_asset(self, chain: str, asset: str) -> str:
        """The id of an asset of `chain` that is not `asset`: a token if there is one, else the native coin.
        Specification: scenario `asset_mismatch`.
        """
        return self._other_assets[chain, asset]


def _chain_of(row: _ChainRow) -> Chain:
    _require(_CHAIN_ID.fullmatch(row.id) is not None, f"chain id {row.id!r}: use 1 to 32 of a-z 0-9 _ -")
    _require(0 < row.chain_id <= _MAX_CHAIN_ID, f"chain {row.id}: chain_id must be 1 to {_MAX_CHAIN_ID}")
    native = next((asset.symbol.upper() for asset in row.assets if asset.contract_address is None), None)
    if native is None:
        raise CatalogError(f"chain {row.id}: one asset must be native, that is, have no contract_address")
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


def _assets_of(row: _ChainRow) -> list[Asset]:
    _require(
        len(row.assets) >= 2,
        f"chain {row.id}: at least two assets are needed, for the scenario asset_mismatch",
    )
    ids = {asset.symbol.upper() for asset in row.assets}
    _require(len(ids) == len(row.assets), f"chain {row.id}: two assets have the same symbol")
    natives = sum(asset.contract_address is None for asset in row.assets)
    _require(natives <= 1, f"chain {row.id}: only one asset can be native, that is, have no contract_address")
    return [_asset_of(row.id, asset) for asset in row.assets]


def _asset_of(chain: str, row: _AssetRow) -> Asset:
    place = f"chain {chain}, asset {row.symbol!r}"
    _require(
        _SYMBOL.fullmatch(row.symbol) is not None, f"{place}: a symbol is 1 to 16 of A-Z a-z 0-9 and the dot"
    )
    _require(0 <= row.decimals <= 77, f"{place}: decimals must be 0 to 77")
    problem = None if row.contract_address is None else address_problem(row.contract_address)
    _require(not problem, f"{place}: contract_address {problem}")
    return Asset(
        id=row.symbol.upper(),
        chain=chain,
        symbol=row.symbol,
        name=row.name,
        decimals=row.decimals,
        contract_address=row.contract_address,
        native=row.contract_address is None,
    )


def _require(condition: object, message: str) -> None:
    if not condition:
        raise CatalogError(message)
