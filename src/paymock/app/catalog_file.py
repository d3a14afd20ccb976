"""Reads the catalog of chains and assets from the package, or from the file of `--catalog`."""

import tomllib
from importlib.resources import files
from pathlib import Path

from paymock.resources.catalog import Catalog, CatalogError


def load_catalog(path: Path | None) -> Catalog:
    """Return the catalog in the TOML file at `path`, or the built-in one. Raises CatalogError."""
    source = files("paymock.app").joinpath("catalog.toml") if path is None else path
    try:
        return Catalog.parse(tomllib.loads(source.read_text(encoding="utf-8")))
    except OSError as error:
        raise CatalogError(f"cannot read the catalog {source}: {error.strerror}") from None
    except ValueError as error:  # of TOML, UTF-8 or the catalog
        raise CatalogError(f"the catalog {source} cannot be used: {error}") from None
