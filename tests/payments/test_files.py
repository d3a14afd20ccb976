import os
from collections.abc import Callable
from pathlib import Path

import pytest

from paymock.payments.files import load_catalog, load_scenarios
from paymock.rules.scenarios import SCENARIOS
from paymock.rules.timeline import summarize
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
    "many digits": (b"\na = " + b"9" * 5_000, "cannot be used: a: too many digits (at line 2)"),
    "too large": (b"\n" * (2**20 + 1), "it is larger than"),
}
CATALOGS = ANY_FILE | {
    "empty": (b"", "cannot be used"),
    "arrays for chains": (b"chains = " + b"[" * 200 + b"]" * 200, "cannot be used"),
    "line ends in a name": (b'[[chains]]\n"a\\nb\\r\\u2028" = 1', "chain 1: a b"),
    "a broken asset": (
        ONE_CHAIN.replace("18 }", "18").encode(),
        "cannot be used: chain one: Invalid initial",
    ),
    "chain id beyond 64 bits": (ONE_CHAIN.replace("= 1\n", f"= {2**70}\n").encode(), "chain_id"),
}
SCENARIO_FILES = ANY_FILE | {
    "empty": (b"", "cannot be used: scenario is required"),
    "a key twice": (
        TWO_HALVES.encode() + b"plus = 2",
        "cannot be used: scenario two_halves: plus: Cannot overwrite a value (at ",
    ),
    "no name": (b"[[scenario]]\n[[scenario]]\nname = [", "cannot be used: scenario 2: name: Invalid"),
    "a name twice": (2 * TWO_HALVES.encode(), "scenario must not have the name two_halves twice"),
    "an amount of many digits": (
        TWO_HALVES.encode()
        + b"[[scenario]]\nname = 'b'\n[[scenario.sending]]\nat = 5\nplus = "
        + b"9" * 5_000,
        "cannot be used: scenario b: plus: too many digits (at line 18)",
    ),
    "line ends in a name": (
        b'[[scenario]]\nname = "x"\n"a\\nb\\u2028" = 1',
        "scenario x: a b  is not a field",
    ),
    "a time": (
        b"[[scenario]]\nname = 12:00:00",
        "scenario 1: name must be a string, not a date or a time",
    ),
    "two problems": (
        TWO_HALVES.replace("1/2", "1/0").encode(),
        "of at most 9 digits each; scenario two_halves: sending[1].share must be a fraction of due",
    ),
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
