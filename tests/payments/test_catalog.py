import tomllib
from importlib.resources import files
from typing import Any

import pytest

from paymock.payments.catalog import Catalog
from paymock.payments.files import parse
from paymock.rules.addresses import address_problem
from paymock.schemas.catalog import CatalogFile

TOKEN = {"symbol": "TOK", "name": "Token", "decimals": 6, "contract_address": "0x" + "ab" * 20}
BUILT_IN = tomllib.loads(files("paymock.payments").joinpath("catalog.toml").read_text())


def catalog_of(document: dict[str, Any]) -> Catalog:
    return Catalog(parse(document, CatalogFile))


def document(**changes: Any) -> dict[str, Any]:
    """A catalog of one chain, changed in its chain; `asset=` changes its second asset."""
    second = TOKEN | changes.pop("asset", {})
    chain = {"id": "one", "name": "One", "chain_id": 1, "testnet": True}
    chain |= {"assets": [{"symbol": "ONE", "name": "One", "decimals": 18}, second], **changes}
    return {"chains": [chain]}


def test_the_built_in_catalog_has_the_documented_chains_and_decimals() -> None:
    catalog = catalog_of(BUILT_IN)
    assert {chain.id: chain.chain_id for chain in catalog.chains.values()} == {
        "bsc": 56, "bsc_testnet": 97, "ethereum": 1, "polygon": 137, "base": 8453,
    }  # fmt: skip
    for chain, decimals in (("bsc", 18), ("ethereum", 6)):
        assets = catalog.assets(chain) or {}
        assert {name: assets[name].decimals for name in ("USDT", "USDC")} == {
            "USDT": decimals,
            "USDC": decimals,
        }


def test_every_built_in_contract_address_has_a_valid_checksum() -> None:
    catalog = catalog_of(BUILT_IN)
    for chain in catalog.chains.values():
        assets = catalog.assets(chain.id) or {}
        assert len(assets) >= 2
        assert assets[chain.native_asset].contract_address is None
        for asset in assets.values():
            assert asset.native == (asset.contract_address is None)
            assert asset.contract_address is None or address_problem(asset.contract_address) is None


def test_the_other_asset_is_a_token_where_there_is_one() -> None:
    catalog = catalog_of(BUILT_IN)
    assert catalog.another_asset("bsc", "USDT") == "USDC"
    assert catalog.another_asset("bsc", "BNB") == "USDT"
    assert catalog_of(document()).another_asset("one", "TOK") == "ONE"


def test_asset_ids_are_upper_case_symbols() -> None:
    assets = catalog_of(document(asset={"symbol": "tOk.e"})).assets("one") or {}
    assert assets["TOK.E"].symbol == "tOk.e"


@pytest.mark.parametrize(
    ("catalog", "message"),
    [
        ({}, "chains is required"),
        ({"chains": []}, "chains must have at least 1 item, not 0"),
        ({"chains": document()["chains"] * 2}, "chains must not have the same id twice"),
        (document(id="One"), "chain 1: id must be 1 to 32 of a-z"),
        (document(chain_id=0), "chain one: chain_id must be an integer, at least 1"),
        (document(chain_id=2**53), "at most 9,007,199,254,740,991"),
        (document(unknown=1), "chain one: unknown is not a field"),
        (document(assets=[]), "assets must have at least 2 items"),
        (document(asset={"symbol": "one"}), "assets must not have the same symbol twice"),
        (document(asset={"symbol": "NO WAY"}), "assets.1..symbol must be 1 to 16"),
        (document(asset={"decimals": 78}), "decimals"),
        (document(asset={"decimals": "6"}), "decimals"),
        *(
            (document(asset={"contract_address": address}), "contract_address must be an EVM address")
            for address in ("0x1", "")
        ),
        (document(asset={"contract_address": None}), "must have one native asset"),
        (document(assets=[{**TOKEN, "symbol": "A"}, {**TOKEN, "symbol": "B"}]), "must have one native asset"),
    ],
)  # fmt: skip
def test_an_invalid_catalog_is_refused_with_a_reason(catalog: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        catalog_of(catalog)
