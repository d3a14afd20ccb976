"""Reads the catalog of chains and assets from the package, or from the file of `--catalog`."""

import tomllib
from pathlib import Path

from paymock.resources.catalog import Catalog, CatalogError

BUILT_IN = Path(__file__).with_name("catalog.toml")  # importlib.resources takes 3 ms of each start

MAX_SIZE = 2**20
"""The largest file, in bytes."""


def load_catalog(path: Path | None) -> Catalog:
    """Return the catalog in the TOML file at `path`, or the built-in one. Raises CatalogError, whose message
    is one line.
    """
    source = path or BUILT_IN
    try:
        with source.open("rb") as file:
            content = file.read(MAX_SIZE + 1)
        if len(content) > MAX_SIZE:
            raise CatalogError(f"it is larger than {MAX_SIZE} bytes")
        return Catalog.parse(tomllib.loads(content.decode("utf-8")))
    except OSError as error:
        problem = f"cannot read the catalog {source}: {error.strerror}"
    except RecursionError:
        problem = f"the catalog {source} cannot be used: it is nested too deeply"
    except ValueError as error:  # of TOML, UTF-8 or the catalog
        problem = f"the catalog {source} cannot be used: {error}"
    raise CatalogError(" ".join(problem.splitlines()))
