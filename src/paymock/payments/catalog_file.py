"""Reads the catalog of chains and assets from the package, or from the file of `--catalog`."""

from pathlib import Path

from paymock.payments.catalog import Catalog, CatalogError
from paymock.payments.toml_file import parse_file

BUILT_IN = Path(__file__).with_name("catalog.toml")  # importlib.resources takes 3 ms of each start


def load_catalog(path: Path | None) -> Catalog:
    """Return the catalog in the TOML file at `path`, or the built-in one. Raises CatalogError, whose message
    is one line.
    """
    return parse_file(path or BUILT_IN, "catalog", Catalog.parse, CatalogError)
