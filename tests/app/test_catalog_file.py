"""Where the catalog is read from, and what a file that cannot be read is refused with."""

from pathlib import Path

import pytest

from paymock.app.catalog_file import load_catalog
from paymock.resources.catalog import CatalogError

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


def test_without_a_file_the_catalog_is_the_built_in_one() -> None:
    assert "USDT" in (load_catalog(None).assets("bsc") or {})


def test_a_file_replaces_the_built_in_catalog(tmp_path: Path) -> None:
    path = tmp_path / "chains.toml"
    path.write_text(ONE_CHAIN)
    catalog = load_catalog(path)
    assert list(catalog.chains) == ["one"]
    assert list(catalog.assets("one") or {}) == ["ONE", "TOK"]


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"chains =", "cannot be used"),
        (b"\xff", "cannot be used"),
        (b"", "cannot be used"),
        (None, "cannot read"),
        (b"a = " + b"[" * 100_000 + b"]" * 100_000, "nested too deeply"),
        (b"a = " + b"{a=" * 3_000 + b"1" + b"}" * 3_000, "nested too deeply"),
        (b"chains = " + b"[" * 200 + b"]" * 200, "cannot be used"),
        (b"[[chains]]\nchain_id = " + b"9" * 5_000, "cannot be used"),
        (b'[[chains]]\n"a\\nb\\r\\u2028" = 1', "cannot be used"),
        (ONE_CHAIN.replace("chain_id = 1", f"chain_id = {2**70}").encode(), "chain_id"),
        (ONE_CHAIN.encode() + b"\n" * 2**20, "larger than"),
    ],
    ids=[
        *("not TOML", "not UTF-8", "no chains", "no file", "deep arrays", "deep tables", "arrays for chains"),
        *("number of many digits", "line ends in a name", "chain id beyond 64 bits", "too large"),
    ],
)
def test_a_file_that_is_no_catalog_is_named(tmp_path: Path, content: bytes | None, reason: str) -> None:
    path = tmp_path / "chains.toml"
    if content is not None:
        path.write_bytes(content)
    with pytest.raises(CatalogError) as caught:
        load_catalog(path)
    assert len(str(caught.value).splitlines()) == 1
    assert str(path) in str(caught.value)
    assert reason in str(caught.value)
