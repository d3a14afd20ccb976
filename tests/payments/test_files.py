import os
import tomllib
from collections.abc import Callable
from importlib.resources import files
from pathlib import Path
from typing import Any

import pytest

from paymock.payments.files import Catalog, load_catalog, load_scenarios, parse
from paymock.rules.addresses import address_problem
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import summarize
from paymock.schemas.catalog import CatalogFile
from tests.support.courses import TWO_HALVES

ONE_CHAIN = """
[[chains]]
id = "one"
name = "One"
chain_id = 1
testnet = true
assets = [
    { symbol = "ONE", name = "One", decimals = 18 },
    { symbol = "TOK", name = "Token", decimals = 6, contract_address = "ADDRESS" },
]
""".replace("ADDRESS", "0x" + "ab" * 20)

ANY_FILE = {
    "not TOML": (b"chains =", "cannot be used: chains: Invalid value"),
    "not UTF-8": (b"\xff", "cannot be used: 'utf-8' codec"),
    "no file": (None, "cannot read"),
    "deep arrays": (b"a = " + b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
    "deep tables": (b"a = " + b"{a=" * 3_000 + b"1" + b"}" * 3_000, "nested too deeply"),
    "many digits": (b"\na = " + b"9" * 5_000, "cannot be used: a number has too many digits"),
    "too large": (b"\n" * (2**20 + 1), "it is larger than"),
}
CATALOGS = ANY_FILE | {
    "empty": (b"", "cannot be used"),
    "arrays for chains": (b"chains = " + b"[" * 200 + b"]" * 200, "cannot be used"),
    "line ends in a name": (b'[[chains]]\n"a\\nb\\r\\u2028" = 1', r"chain 1: a\nb\r\u2028 is not"),
    "a broken asset": (ONE_CHAIN.replace("18 }", "18").encode(), "cannot be used: chain one: Invalid"),
    "chain id beyond 64 bits": (ONE_CHAIN.replace("= 1\n", f"= {2**70}\n").encode(), "chain_id"),
}
SCENARIO_FILES = ANY_FILE | {
    "a key twice": (
        TWO_HALVES.encode() + b"plus = 2",
        "cannot be used: scenario two_halves: plus: Cannot overwrite a value (at ",
    ),
    "no name": (b"[[scenario]]\n[[scenario]]\nname = [", "cannot be used: scenario 2: name: Invalid"),
}


def test_without_a_file_there_is_what_is_built_in() -> None:
    assert "USDT" in (load_catalog(None).assets("bsc") or {})
    assert load_scenarios(None) is SCENARIOS


def test_a_file_replaces_the_built_in_catalog(tmp_path: Path) -> None:
    path = tmp_path / "chains.toml"
    path.write_text(ONE_CHAIN)
    catalog = load_catalog(path)
    assert list(catalog.chains) == ["one"]
    assert list(catalog.assets("one") or {}) == ["ONE", "TOK"]


def test_a_file_adds_its_scenarios(tmp_path: Path) -> None:
    path = tmp_path / "scenarios.toml"
    path.write_text(TWO_HALVES)
    scenarios = load_scenarios(path)
    assert list(scenarios) == [*SCENARIOS, "two_halves"]
    row = summarize(scenarios["two_halves"])
    assert (row.final_status, row.after) == ("overpaid_review", "18 s")


@pytest.mark.parametrize("load", [load_catalog, load_scenarios])
def test_nothing_waits_for_what_is_no_file(tmp_path: Path, load: Callable[[Path], object]) -> None:
    os.mkfifo(tmp_path / "pipe")
    for path in (tmp_path / "pipe", tmp_path, Path("/dev/zero")):
        with pytest.raises(ValueError, match=f"{path} cannot be used: it is not a regular file"):
            load(path)


@pytest.mark.parametrize(
    ("kind", "name"),
    [("catalog", name) for name in CATALOGS] + [("scenario file", name) for name in SCENARIO_FILES],
)
def test_an_unusable_file_is_refused_in_one_line(tmp_path: Path, kind: str, name: str) -> None:
    load, contents = (load_catalog, CATALOGS) if kind == "catalog" else (load_scenarios, SCENARIO_FILES)
    content, reason = contents[name]
    path = tmp_path / "file.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(ValueError, match=kind) as refused:
        load(path)
    assert len(str(refused.value).splitlines()) == 1
    assert str(path) in str(refused.value)
    assert reason in str(refused.value)


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
        assert [assets[name].decimals for name in ("USDT", "USDC")] == [decimals, decimals]


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
    catalog = catalog_of(document(asset={"symbol": "tOk.e"}))
    assert (catalog.assets("one") or {})["TOK.E"].symbol == "tOk.e"
    assert "(did you mean TOK.E?); known: " in catalog.unknown_asset("one", "tOk.e")


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
