"""The catalog, and the TOML files of `--catalog` and `--scenarios`: all problems of one are told at once."""

import re
import tomllib
from collections.abc import Mapping
from itertools import islice
from pathlib import Path
from typing import Any, TypeVar

import msgspec
from msgspec.structs import asdict

from paymock.rules.scenarios import CONFIRMATIONS_REQUIRED, SCENARIOS, Scenario
from paymock.schemas.catalog import Asset, CatalogFile, Chain
from paymock.schemas.scenarios import ScenarioFile
from paymock.schemas.validation import MAX_DETAILS, Problems, checker_for

T = TypeVar("T", bound=msgspec.Struct)

BUILT_IN = Path(__file__).with_name("catalog.toml")  # importlib.resources takes 3 ms of each start

MAX_SIZE = 2**20
"""The largest file, in bytes."""

_NAME = re.compile("[a-z0-9_-]{1,64}")
_TABLE = re.compile(r"\s*\[\[\s*([a-z]+?)s?\s*\]\]")
_LABEL = re.compile(r"""\s*(?:name|id)\s*=\s*["']([a-z0-9_-]{1,64})["']""")
_FIELD = re.compile(r"\s*([A-Za-z0-9_-]{1,64})\s*=")
_LINE = re.compile(r"at line ([0-9]+)")
_ENTRY = re.compile(r"([a-z]+?)(s?)\[([0-9]+)\]\.?(.*)", re.DOTALL)
"""The path of a problem in an entry of a table."""


class FileError(ValueError):
    """A file that cannot be used. The message is one line: the file, and each entry, field and problem."""


class Catalog:
    """The supported chains and their assets, in the order of the file."""

    def __init__(self, file: CatalogFile) -> None:
        self.chains: dict[str, Chain] = {}
        self._assets: dict[str, dict[str, Asset]] = {}
        self._other_assets: dict[tuple[str, str], str] = {}
        for row in file.chains:
            assets = [
                Asset(id=one.symbol.upper(), chain=row.id, native=not one.contract_address, **asdict(one))
                for one in row.assets
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

    def unknown_asset(self, chain: str, asset: str) -> str:
        known, meant = self._assets[chain], asset.upper()
        hint = f" (did you mean {meant}?)" if meant in known else ""
        return f"is not an asset of the chain {chain}{hint}; known: {', '.join(known)}"

    def another_asset(self, chain: str, asset: str) -> str:
        """The id of an asset of `chain` that is not `asset`: a token if there is one, else the native coin.
        Specification: scenario `asset_mismatch`.
        """
        return self._other_assets[chain, asset]


def load_catalog(path: Path | None) -> Catalog:
    """The catalog in the TOML file at `path`, or the built-in one. Raises FileError."""
    return Catalog(_read(path or BUILT_IN, "catalog", CatalogFile))


def load_scenarios(path: Path | None) -> Mapping[str, Scenario]:
    """The built-in scenarios and those in the TOML file at `path`, by name. Raises FileError."""
    return {**SCENARIOS, **read_scenarios(path)} if path else SCENARIOS


def read_scenarios(path: Path) -> Mapping[str, Scenario]:
    """The scenarios in the TOML file at `path`, by name. Raises FileError."""
    return {entry.name: entry for entry in _read(path, "scenario file", ScenarioFile).scenario}


def _read(path: Path, noun: str, file_type: type[T]) -> T:
    """The content of the TOML file at `path`, which messages call `noun`. Raises FileError."""
    try:
        if path.exists() and not path.is_file():
            raise ValueError("it is not a regular file")  # a pipe could wait for ever
        with path.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
        if len(content) > MAX_SIZE:
            raise ValueError(f"it is larger than {MAX_SIZE} bytes")
        return parse(_decode(content.decode("utf-8")), file_type)
    except OSError as error:
        problem = f"cannot read the {noun} {path}: {error.strerror}"
    except RecursionError:
        problem = f"the {noun} {path} cannot be used: it is nested too deeply"
    except ValueError as error:  # of TOML, UTF-8 or its types
        problem = f"the {noun} {path} cannot be used: {error}"
    raise FileError(" ".join(problem.splitlines()))


def parse(document: Mapping[str, Any], file_type: type[T]) -> T:
    """A decoded TOML document as its type. Raises ValueError with all problems."""
    problems: Problems = {}
    checker_for(file_type)(document, "", problems)
    if not problems:
        return msgspec.convert(document, file_type, strict=False)
    listed = []
    for path, problem in islice(problems.items(), MAX_DETAILS):
        match = _ENTRY.fullmatch(path)
        if match is None:
            listed.append(f"{path} {problem}")
            continue
        table, plural, number, field = match.groups()
        entry = document[table + plural][int(number)]
        labels = [entry.get(key) for key in ("id", "name") if field != key] if isinstance(entry, dict) else []
        named = (label for label in labels if isinstance(label, str) and _NAME.fullmatch(label))
        label = next(named, int(number) + 1)
        listed.append(f"{table} {label}: {field} {problem}".replace(":  ", " "))
    raise ValueError("; ".join(listed))


def _decode(text: str) -> Mapping[str, Any]:
    """Decode TOML. Raises ValueError, which names the table and the field as far as they are known, `scenario
    two_halves: plus: `, and RecursionError.
    """
    try:
        return tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, at = str(error), _LINE.search(str(error))
    except ValueError:  # Python converts 4,300 digits to an integer, and no more
        raise ValueError("a number has too many digits") from None
    table, count, label, line = "", 0, "", ""
    for line in text.split("\n")[: int(at[1]) if at else None]:
        if header := _TABLE.match(line):
            table, count, label = header[1], count + 1, ""
        elif not label and (named := _LABEL.match(line)):
            label = named[1]
    field = _FIELD.match(line)
    place = [f"{table} {label or count}"] if table else []
    raise ValueError(": ".join([*place, *([field[1]] if field else []), problem]))
